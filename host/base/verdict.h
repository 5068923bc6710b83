/* host/base/verdict.h: what tests of a device have shown, each under a name: kept in the context and, where
 * programs are kept on disk, there too, for the same device, driver, library and kernels. Called by
 * attention/proof.c, features.c and device.c. */
#ifndef CA_BASE_VERDICT_H
#define CA_BASE_VERDICT_H

#include "base/context.h"

typedef enum ca_verdict { CA_UNTESTED, CA_RIGHT, CA_WRONG } ca_verdict;

/* The name of a device's first: whether the simplest kernel gives right numbers. */
#define CA_VERDICT_KERNEL "feature kernel"

/* The verdict under this name; of WRONG, `words` says what was wrong. */
ca_verdict ca_verdict_find(clattn_context *context, const char *name, char words[CLATTN_TEXT_BYTES]);

/* Keeps one; `words` may be NULL for RIGHT. */
void ca_verdict_keep(clattn_context *context, const char *name, ca_verdict verdict, const char *words);

/* What is on disk under this name for a device that has no context yet; `cache_dir` may be NULL. */
ca_verdict ca_verdict_of_device(const ca_device *device, const char *cache_dir, const char *name);

void ca_verdicts_release(clattn_context *context);

#endif
