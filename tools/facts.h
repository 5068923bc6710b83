/* tools/facts.h: the parts of `clattn-cl facts` that take a context each. Called by facts.c. */
#ifndef TOOLS_FACTS_H
#define TOOLS_FACTS_H

#include "session.h"

#include <cjson/cJSON.h>

/* "shape": which row would run, and why not the better ones; bytes and whether they fit; an estimate. */
bool facts_add_shape(cJSON *about, clattn_context *context, const char *shape, tool_error *error);

/* "measure": peaks, bandwidths, latencies, with spread. */
bool facts_add_measures(cJSON *about, clattn_context *context, tool_error *error);

/* Why a row was refused, from the library's last message, without the row's name. */
const char *facts_reason(void);

#endif
