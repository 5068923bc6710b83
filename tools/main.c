/* tools/main.c: the program `clattn-cl`: finds the command and runs it. The commands stand one file each
 * beside it; `clattn probe` is in probe/, and front/main.c is what people call. */
#include "commands.h"

#include "files/text.h"

#include <clattn/clattn.h>

#include <stdio.h>
#include <string.h>

/* `clattn probe` runs tool_facts_command, people do not. */
static const tool_command *const commands[] = { &tool_run_command, &tool_mha_command, &tool_bench_command };
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to)
{
    fprintf(to, "usage: clattn COMMAND [options]\nTransformer attention on any OpenCL device, over tensors "
                "in files.\n\n"
                "  probe      the OpenCL devices, which one is picked and why, and what is wrong\n");
    for (size_t index = 0; index < COMMANDS; index++)
        fprintf(to, "  %-9s  %s\n", commands[index]->name, commands[index]->summary);
    fprintf(
        to,
        "  --version  the version of the program\n"
        "  --help     this text; clattn COMMAND --help tells a command's options\n\n"
        "environment:\n"
        "  CLATTN_DEVICE          the device when --device is not given\n"
        "  CLATTN_CACHE_DIR       the folder that keeps built kernels; empty: nothing is kept\n"
        "  CLATTN_USE_KNOWN_BAD   not empty: drivers that are known to be bad are used as others are\n"
        "  CLATTN_VERBOSE         not empty: the library's log and whole build logs on stderr\n\n"
        "output files appear whole or not at all; where one is a symbolic link, the file behind it is\n"
        "replaced, and must be there\n\n"
        "exit codes: 0 done, 1 failed, 2 wrong usage, 3 probe found no device, or OpenCL is not installed,\n"
        "4 bench --fail-slower found a case slower\n");
}

static int print_and_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return TOOL_DONE;
    fprintf(stderr, "clattn: cannot write to standard output\n");
    return TOOL_FAILED;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    const char *word = argv[1];
    tool_error error;
    if (argc > 2 && (strcmp(word, "--version") == 0 || strcmp(word, "--help") == 0)) {
        tool_fail(&error, "%s stands alone, and %.64s follows", word, argv[2]);
        fprintf(stderr, "clattn: %s\n", error.text);
        return TOOL_USAGE;
    }
    if (strcmp(word, "--version") == 0) {
        printf("clattn %s\n", clattn_version());
        return print_and_flush();
    }
    if (strcmp(word, "--help") == 0) {
        print_help(stdout);
        return print_and_flush();
    }
    for (size_t index = 0; index < COMMANDS; index++) {
        if (strcmp(word, commands[index]->name) == 0)
            return commands[index]->run(argc - 2, argv + 2);
    }
    if (strcmp(word, tool_facts_command.name) == 0)
        return tool_facts_command.run(argc - 2, argv + 2);
    const char *nearest = word[0] == '-' && word[1] == '-' ? "--help" : "probe";
    if (tool_distance(word, "--version") < tool_distance(word, nearest))
        nearest = "--version";
    for (size_t index = 0; index < COMMANDS; index++) {
        if (tool_distance(word, commands[index]->name) < tool_distance(word, nearest))
            nearest = commands[index]->name;
    }
    tool_fail(&error, "unknown command %.64s; the nearest is %s", word, nearest);
    fprintf(stderr, "clattn: %s\n", error.text);
    return TOOL_USAGE;
}
