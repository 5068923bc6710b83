/* tools/report.h: what run and mha say about a calculation, in lines for people or in one JSON object.
 * Called by run.c and mha.c. */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include "session.h"

#include <cjson/cJSON.h>

typedef struct tool_times {
    double build_s; /* until the plan was there, kernels built */
    double first_s; /* the first call */
    double warm_s;  /* median of the calls after it */
    int64_t warm_calls;
} tool_times;

/* Calls once and then `repeat` times more. `build_s` is left alone. */
bool tool_measure(clattn_status (*call)(void *state), void *state, int64_t repeat, tool_times *times,
                  tool_error *error);

/* The device and why, the kernel and why, and in a second step the times. */
void tool_print_device(const clattn_context *context, const clattn_attention_info *info);
void tool_print_times(const tool_times *times);
void tool_json_device(cJSON *object, const clattn_context *context, const clattn_attention_info *info);
void tool_json_times(cJSON *object, const tool_times *times);

/* Shape, least, greatest, mean and first numbers of a result. */
void tool_print_array(const char *name, const tool_array *array);
void tool_json_array(cJSON *object, const char *name, const tool_array *array);

/* `seconds` with a unit: "12.3 ms". */
const char *tool_time_text(double seconds, char text[32]);

/* One number, NULL for what is not finite. */
void tool_json_number(cJSON *object, const char *name, double value);

/* A text, NULL for NULL and "". */
void tool_json_text(cJSON *object, const char *name, const char *text);

/* Prints the object to stdout. */
bool tool_json_print(const cJSON *object, tool_error *error);

#endif
