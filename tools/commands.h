/* tools/commands.h: the commands of `clattn-cl`, one file each. main.c calls them; `clattn probe` is in
 * probe/. */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "options.h"

extern const tool_command tool_facts_command;
extern const tool_command tool_run_command;
extern const tool_command tool_mha_command;
extern const tool_command tool_bench_command;

#endif
