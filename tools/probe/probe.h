/* tools/probe/probe.h: `clattn probe`. Called by main.c. */
#ifndef TOOLS_PROBE_PROBE_H
#define TOOLS_PROBE_PROBE_H

#include "options.h"

enum { PROBE_NO_DEVICE = 3 };

extern const tool_command tool_probe_command;

#endif
