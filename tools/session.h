/* tools/session.h: what every command needs of the machine: the environment, the device, the clock, the
 * terminal. The environment is read here only: CLATTN_DEVICE, the device when --device is not given,
 * CLATTN_CACHE_DIR, the folder of built programs, CLATTN_USE_KNOWN_BAD, to use drivers that are known to be
 * bad, and CLATTN_VERBOSE, which sends the library's log and whole build logs to stderr. */
#ifndef TOOLS_SESSION_H
#define TOOLS_SESSION_H

#include "options.h"

#include <clattn/clattn.h>

/* Fails with the library's last message, "about: message", or without "about: " when about is NULL. */
bool tool_fail_library(tool_error *error, const char *about);

/* --device, or CLATTN_DEVICE, or NULL. */
const char *tool_selector(const char *option);

/* Options of a context on that device, as the environment wants them. */
clattn_context_options tool_context_options(const char *device_option);

/* A context on that device, with the log on stderr when CLATTN_VERBOSE is set and not empty. */
bool tool_open(const char *device_option, clattn_context **context, tool_error *error);

/* As tool_end, and wipes the progress line; with CLATTN_VERBOSE the whole build log follows the error. */
int tool_finish(const tool_command *command, bool ok, const tool_error *error);

/* Whether `wanted` is a row of the table, `or_else` or NULL: TOOL_GO_ON, or it complains. */
int tool_kernel_check(const tool_command *command, const char *wanted, const char *or_else);

/* Seconds from some fixed moment. */
double tool_seconds(void);

/* Says on stderr what the program is doing, once that has taken a second, if stderr is a terminal. begin
 * replaces what was said before; end wipes the line. */
void tool_progress_begin(const char *what);
void tool_progress_end(void);

#endif
