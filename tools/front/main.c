/* tools/front/main.c: the program `clattn`. It needs no OpenCL: it does `probe` itself and leaves every other
 * command to clattn-cl, which links OpenCL and would not even start without it. */
#include "probe/doctor.h"
#include "probe/gather.h"
#include "probe/probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The loader is found as the other program will find it. */
static bool loader_is_there(void)
{
#ifdef __APPLE__
    return true; /* a framework of the system */
#else
    if (dlopen("libOpenCL.so.1", RTLD_LAZY | RTLD_LOCAL))
        return true;
    const char *words = dlerror();
    char command[256];
    tool_doctor_install(&tool_here, command, sizeof command);
    fprintf(stderr, "clattn: no OpenCL loader: %s; install it: %s\n", words ? words : "libOpenCL.so.1",
            command);
    return false;
#endif
}

int main(int argc, char **argv)
{
    char program[PATH_MAX];
    tool_error error;
    if (argc > 1 && strcmp(argv[1], "probe") == 0)
        return tool_probe_command.run(argc - 2, argv + 2);
    if (!loader_is_there())
        return PROBE_NO_DEVICE;
    if (gather_program(program, sizeof program, &error)) {
        execv(program, argv);
        tool_fail(&error, "%s: %s", program, strerror(errno));
    }
    fprintf(stderr, "clattn: %s\n", error.text);
    return TOOL_FAILED;
}
