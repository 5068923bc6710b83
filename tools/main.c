/* tools/main.c: the program `clattn`: finds the command and runs it.
 * The commands stand one file each beside it. */
#include <clattn/clattn.h>

#include <stdio.h>

int main(void)
{
    printf("clattn %s\n", clattn_version());
    return 0;
}
