/* tools/probe/doctor.h: the chain from the hardware to a kernel with right numbers, link by link, and for
 * each that is broken one cause and one command. Called by probe.c and the program's main. */
#ifndef TOOLS_PROBE_DOCTOR_H
#define TOOLS_PROBE_DOCTOR_H

#include "probe/icds.h"

#include <cjson/cJSON.h>

#include <stdio.h>

/* Adds to a document of gather.h: "chain", an object a link, and to "trouble" an object a cause, the earliest
 * link first. What follows from an earlier trouble is not told again. */
bool tool_doctor(const tool_place *place, const tool_icds *icds, cJSON *document, tool_error *error);

/* The chain and the troubles as lines; that there are none, where that is so. */
void tool_doctor_print(FILE *to, const cJSON *document);

/* The command that installs OpenCL's loader on this system. */
void tool_doctor_install(const tool_place *place, char *command, size_t bytes);

#endif
