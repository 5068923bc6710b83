/* clattn/probe.h: what a device says of itself, and what of it is true: the facts that decide how attention
 * runs there, and small kernels that are built, run and checked. For programs that explain to their users
 * what they have; `clattn probe` is one.
 */
#ifndef CLATTN_PROBE_H
#define CLATTN_PROBE_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Facts: claims, a property each -------------------------------------------------------------------- */

typedef enum clattn_fact_kind {
    CLATTN_FACT_UNKNOWN, /* `text` says why: an error by name, or the extension that is missing */
    CLATTN_FACT_NUMBER,
    CLATTN_FACT_FLAG, /* number is 0 or 1 */
    CLATTN_FACT_TEXT
} clattn_fact_kind;

typedef struct clattn_fact {
    const char *name; /* such as "cache_line_bytes"; a name keeps its meaning. Static */
    const char *unit; /* "B", "s", "Hz" or "". Static */
    clattn_fact_kind kind;
    double number;
    char text[CLATTN_TEXT_BYTES]; /* valid UTF-8 without control characters, whatever the driver gave */
} clattn_fact;

/* Asks for every fact there is, one by one, so that one which the driver refuses costs only itself. Writes at
 * most `capacity` entries (`facts` may be NULL when that is 0) and the number there are to *count. Nothing is
 * built. Any thread. Errors: INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_device_facts(cl_device_id device, size_t capacity, clattn_fact *facts,
                                             size_t *count);

/* ---- Features: claims, and their proofs ---------------------------------------------------------------- */

typedef enum clattn_proof {
    CLATTN_PROOF_NONE,     /* not tried: the device does not claim it */
    CLATTN_PROOF_OK,       /* a kernel that needs it was built, ran, and gave the right numbers */
    CLATTN_PROOF_WRONG,    /* wrong numbers: `detail` has them */
    CLATTN_PROOF_NO_BUILD, /* `detail` is the first line of the compiler's log that says error */
    CLATTN_PROOF_FAILED    /* an OpenCL call failed: `detail` has its name and the error's */
} clattn_proof;

/* "ok", "wrong", "fails to build", "fails"; "not claimed" for NONE. Never NULL, static storage. */
CLATTN_API const char *clattn_proof_name(clattn_proof proof);

typedef struct clattn_feature {
    const char *name; /* "kernel", "local_memory", "half_storage", "fp16", ... Static */
    const char *what; /* what it is, in a few words. Static */
    bool claimed;
    clattn_proof proof;
    char detail[CLATTN_TEXT_BYTES]; /* "" when there is nothing to say; clean as clattn_fact.text */
} clattn_feature;

/* Proves feature after feature on the context's device and its own queue: builds a tiny kernel for each that
 * the device claims, runs it and checks its numbers. Takes as long as the driver's compiler does, about a
 * tenth of a second a feature. "kernel" is the first: the simplest kernel there is. `capacity`, `features`
 * and *count as above. Any thread. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY; what goes wrong on the device
 * stands in the features. */
CLATTN_API clattn_status clattn_device_features(clattn_context *context, size_t capacity,
                                                clattn_feature *features, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
