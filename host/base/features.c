/* host/base/features.c: what a device claims and what of it is true: tiny kernels (cl/base/probe.cl) that are
 * built, run and checked, one row of a table each. Called by programs.
 */
#include "base/facts.h"
#include "base/program.h"
#include "base/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 64 };

typedef struct feature {
    const char *name, *what;
    const char *extensions[2];                /* either claims it; NULL first: every device that compiles */
    bool newer;                               /* needs OpenCL C 2.0 or later where the device has it */
    double (*wanted)(const float *in, int i); /* what item i writes */
    double tolerance;
} feature;

/* ---- The rows ------------------------------------------------------------------------------------------ */

static double doubled(const float *in, int i)
{
    return 2.0 * in[i] + 1;
}

static double reversed(const float *in, int i)
{
    return in[ITEMS - 1 - i];
}

static double by_half(const float *in, int i)
{
    return 1.5 * in[i];
}

static double by_half_and_more(const float *in, int i)
{
    return 1.5 * in[i] + 0.25;
}

static double one(const float *in, int i)
{
    (void)in, (void)i;
    return 1;
}

static double same(const float *in, int i)
{
    return in[i];
}

static double dot(const float *in, int i)
{
    (void)in;
    return -3.0 * i - 2 * 5 - 3 * 7 + 127 * 127;
}

static double sixteen_more(const float *in, int i)
{
    return in[i] + 16.0;
}

static const feature features[] = {
    /* name, what, extensions, newer, wanted, tolerance */
    { "kernel", "the simplest kernel", { NULL }, false, doubled, 0 },
    { "local_memory", "local memory and barriers", { NULL }, false, reversed, 0 },
    { "half_storage", "f16 in memory", { NULL }, false, by_half, 0 },
    { "fp16", "f16 arithmetic", { "cl_khr_fp16" }, false, by_half_and_more, 0 },
    { "fp64", "f64 arithmetic", { "cl_khr_fp64" }, false, one, 1e-4 },
    { "sub_groups",
      "sub-groups and their sums",
      { "cl_khr_subgroups", "cl_intel_subgroups" },
      true,
      same,
      0 },
    { "shuffle",
      "shuffles within a sub-group",
      { "cl_khr_subgroup_shuffle", "cl_intel_subgroups" },
      true,
      same,
      0 },
    { "integer_dot", "dot products of four bytes", { "cl_khr_integer_dot_product" }, true, dot, 0 },
    { "matrix",
      "matrix units, by sub-groups",
      { "cl_intel_subgroup_matrix_multiply_accumulate" },
      false,
      sixteen_more,
      0 },
};
enum { FEATURES = sizeof features / sizeof *features };

/* ---- The proof ----------------------------------------------------------------------------------------- */

const char *clattn_proof_name(clattn_proof proof)
{
    static const char *const names[] = { [CLATTN_PROOF_NONE] = "not claimed",
                                         [CLATTN_PROOF_OK] = "ok",
                                         [CLATTN_PROOF_WRONG] = "wrong",
                                         [CLATTN_PROOF_NO_BUILD] = "fails to build",
                                         [CLATTN_PROOF_FAILED] = "fails" };
    return (size_t)proof < sizeof names / sizeof *names ? names[proof] : "unknown";
}

/* Exact in f16, and so are the sums and products that are wanted. */
static void fill(float in[ITEMS])
{
    for (int i = 0; i < ITEMS; ++i)
        in[i] = (float)(i % 13) * 0.25f - 1;
}

/* Builds, runs and reads back. */
static clattn_status run(clattn_context *context, const feature *of, float out[ITEMS])
{
    static const char *const sources[] = { "base/probe.cl", NULL };
    const size_t groups[3] = { 1, 1, 1 }, local[3] = { ITEMS, 1, 1 };
    const int version = of->newer ? ca_device_version(context->device.info.device_id) : 12;
    char options[160], name[48];
    float in[ITEMS];
    cl_kernel kernel = NULL;
    cl_mem buffers[2] = { NULL, NULL };
    cl_int error = CL_SUCCESS;
    snprintf(name, sizeof name, "probe_%s", of->name);
    snprintf(options, sizeof options, "%s-DITEMS=%d -DPROBE=%s -DSIMD=%zu",
             version >= 30   ? "-cl-std=CL3.0 "
             : version >= 20 ? "-cl-std=CL2.0 "
                             : "",
             ITEMS, name, ca_device_sub_group_size(context->device.info.device_id));
    fill(in);
    clattn_status status = ca_kernel_create(context, sources, options, name, &kernel);
    if (status != CLATTN_OK)
        return status;
    buffers[0] = clCreateBuffer(context->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof in, in, &error);
    if (error == CL_SUCCESS)
        buffers[1] = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, 2 * sizeof in, NULL, &error);
    if (error != CL_SUCCESS) {
        status = ca_fail_cl(error, "clCreateBuffer", name);
        goto done;
    }
    for (cl_uint i = 0; i < 2 && status == CLATTN_OK; ++i)
        status = ca_kernel_arg(kernel, name, i, sizeof(cl_mem), &buffers[i]);
    if (status == CLATTN_OK)
        status = ca_kernel_enqueue(context->queue, kernel, name, groups, local);
    if (status == CLATTN_OK) {
        error = clEnqueueReadBuffer(context->queue, buffers[1], CL_TRUE, 0, ITEMS * sizeof(float), out, 0,
                                    NULL, NULL);
        if (error != CL_SUCCESS)
            status = ca_fail_cl(error, "clEnqueueReadBuffer", name);
    }
done:
    for (int i = 0; i < 2; ++i)
        if (buffers[i] != NULL)
            clReleaseMemObject(buffers[i]);
    clReleaseKernel(kernel);
    return status;
}

static void prove(clattn_context *context, const feature *of, clattn_feature *said)
{
    float in[ITEMS], out[ITEMS];
    fill(in);
    for (int i = 0; i < ITEMS; ++i)
        out[i] = NAN;
    const clattn_status status = run(context, of, out);
    if (status != CLATTN_OK) {
        said->proof = status == CLATTN_BUILD_FAILED ? CLATTN_PROOF_NO_BUILD : CLATTN_PROOF_FAILED;
        ca_copy_clean(clattn_last_message(), said->detail);
        return;
    }
    said->proof = CLATTN_PROOF_OK;
    for (int i = 0; i < ITEMS && said->proof == CLATTN_PROOF_OK; ++i) {
        const double wanted = of->wanted(in, i);
        if (fabs(out[i] - wanted) <= of->tolerance)
            continue;
        said->proof = CLATTN_PROOF_WRONG;
        snprintf(said->detail, sizeof said->detail, "item %d gives %.9g, %.9g is right", i, (double)out[i],
                 wanted);
    }
}

/* For the pick. A call that failed may have had a reason of the moment. */
static void keep_verdict(clattn_context *context, const clattn_feature *kernel)
{
    if (kernel->proof == CLATTN_PROOF_OK)
        ca_verdict_keep(context, CA_VERDICT_KERNEL, CA_RIGHT, NULL);
    else if (kernel->proof == CLATTN_PROOF_WRONG || kernel->proof == CLATTN_PROOF_NO_BUILD)
        ca_verdict_keep(context, CA_VERDICT_KERNEL, CA_WRONG, kernel->detail);
}

static bool is_claimed(const feature *of, const clattn_context *context, const char *extensions)
{
    bool claimed = of->extensions[0] == NULL;
    for (int i = 0; i < 2; ++i)
        claimed = claimed || (of->extensions[i] != NULL && ca_device_claims(extensions, of->extensions[i]));
    return claimed && context->device.info.has_compiler;
}

clattn_status clattn_device_features(clattn_context *context, size_t capacity, clattn_feature *said,
                                     size_t *count)
{
    if (count == NULL)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "count is NULL");
    *count = 0;
    if (context == NULL || (said == NULL && capacity > 0))
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s is NULL", context == NULL ? "context" : "features");
    char *extensions = ca_device_extensions(context->device.info.device_id);
    if (extensions == NULL)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a device's extensions");
    for (size_t i = 0; i < FEATURES && i < capacity; ++i) {
        const feature *of = &features[i];
        said[i] = (clattn_feature){ .name = of->name, .what = of->what };
        said[i].claimed = is_claimed(of, context, extensions);
        if (said[i].claimed)
            prove(context, of, &said[i]);
        if (i == 0)
            keep_verdict(context, &said[i]);
    }
    free(extensions);
    *count = FEATURES;
    return CLATTN_OK;
}
