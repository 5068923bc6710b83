/* tools/probe/gather.h: what all drivers of the machine answer, as one JSON document of schema 1; its keys
 * are told in clattn-probe(1). Called by probe.c. */
#ifndef TOOLS_PROBE_GATHER_H
#define TOOLS_PROBE_GATHER_H

#include "probe/children.h"
#include "probe/icds.h"

enum { PROBE_SCHEMA = 1 };

typedef struct gather_wish {
    bool details, measure;
    const char *shape, *device; /* NULL: not asked; CLATTN_DEVICE or the library's choice */
    child_limits limits;
} gather_wish;

/* Asks every driver in a process of its own, and once all of them together, as programs see them: that gives
 * the devices' numbers and the pick. `trouble` is an empty array. The caller deletes *document. */
bool gather(const tool_icds *icds, const gather_wish *wish, cJSON **document, tool_error *error);

/* The file of the program that links OpenCL, beside this one; or which file is missing. */
bool gather_program(char *path, size_t bytes, tool_error *error);

/* Of an object, whoever wrote it: "" and 0 where the key is missing or of another type. */
const char *json_text(const cJSON *object, const char *key);
double json_number(const cJSON *object, const char *key);
bool json_true(const cJSON *object, const char *key);

#endif
