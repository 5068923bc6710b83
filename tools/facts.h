/* tools/facts.h: the parts of `clattn-cl facts` that take a context each. Called by facts.c. */
#ifndef TOOLS_FACTS_H
#define TOOLS_FACTS_H

#include "session.h"

#include <cjson/cJSON.h>

/* "shape": which row would run, and why not the better ones; bytes and whether they fit. */
bool facts_add_shape(cJSON *about, clattn_context *context, const char *shape, tool_error *error);

/* Of that, the greater of the time by multiply-adds and the time by reading, each at the best that is
 * measured now; nothing on a device that cannot be measured. */
void facts_add_estimate(cJSON *about, clattn_context *context, const char *shape);

/* "measure": peaks, bandwidths, latencies, with spread. */
bool facts_add_measures(cJSON *about, clattn_context *context, tool_error *error);

/* Why a row was refused, from the library's last message, without the row's name. */
const char *facts_reason(void);

#endif
