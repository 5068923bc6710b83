/* tools/probe/views.h: the document of gather.h as lines for people, within 100 columns. Called by probe.c.
 */
#ifndef TOOLS_PROBE_VIEWS_H
#define TOOLS_PROBE_VIEWS_H

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stdio.h>

/* Where lines go. */
typedef struct view {
    FILE *to;
    bool colour;
} view;

/* A line a device, the pick and why, and the first few troubles. */
void view_devices(const view *on, const cJSON *document);

/* Each device's facts, features and rows; what would run for a shape; what was measured. Nothing where the
 * document has none. */
void view_details(const view *on, const cJSON *document);
void view_shapes(const view *on, const cJSON *document);
void view_measures(const view *on, const cJSON *document);

/* Words from column `at` on, on as many lines as they need; those after the first begin at `indent`. */
void view_wrapped(FILE *to, int at, int indent, const char *text);

#endif
