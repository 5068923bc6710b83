/* tools/files/text.h: text files of one token a line, and the nearest of some names.
 * Called by the program's commands and by the readers' messages. */
#ifndef TOOLS_FILES_TEXT_H
#define TOOLS_FILES_TEXT_H

#include "files/array.h"

/* Lines in the order of the file, without their ends, as valid UTF-8: other bytes and control characters
 * become '?'. */
typedef struct tool_lines {
    char **line;
    size_t count;
    char *memory;
} tool_lines;

/* On failure *lines is all zero. Files above 16 MiB are refused. */
bool tool_lines_read(const char *path, tool_lines *lines, tool_error *error);
void tool_lines_free(tool_lines *lines); /* all zero is allowed */

/* Makes a text of whoever wrote it fit to print: at most `most` bytes, valid UTF-8 on one line; other bytes
 * and control characters become '?'. */
void tool_text_clean(char *text, size_t most);

/* Number of letters to insert, remove, change or swap with a neighbour to turn one word into the other. Words
 * are cut to 63 bytes. */
size_t tool_distance(const char *one, const char *other);

#endif
