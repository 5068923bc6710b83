/* tools/plot.h: attention weights as a picture, one heat map a head, tokens on both axes.
 * Called by mha.c. */
#ifndef TOOLS_PLOT_H
#define TOOLS_PLOT_H

#include "files/array.h"

#include <stdio.h>

typedef struct tool_plot {
    const char *title;
    const float *weights; /* of head 0; element (head, row, column) at head * head_stride + row * row_stride +
                             column */
    int64_t heads, rows, columns;
    int64_t head_stride, row_stride;
    char *const *row_labels; /* [rows] valid UTF-8, or NULL for numbers */
    char *const *column_labels;
} tool_plot;

/* Writes a PNG. Of more than 64 heads the first 64 are drawn, which the note below the title says. */
bool tool_plot_png(const tool_plot *plot, FILE *file, const char *path, tool_error *error);

#endif
