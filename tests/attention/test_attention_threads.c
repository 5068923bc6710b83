/* tests/attention/test_attention_threads.c: eight threads with a plan each on one context; every row of the
 * table is in one of them. tests/run.sh runs it under ThreadSanitizer too. Threads only keep what went wrong:
 * cmocka's checks belong to the main one. */
#include "support/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 5, HEADS = 2, LENGTH = 20, D = 8, ELEMENTS = HEADS * LENGTH * D };

typedef struct worker {
    pthread_t thread;
    clattn_attention_desc desc;
    clattn_attention_call arrays, buffers;
    clattn_attention_plan *plan;
    cl_command_queue queue;
    float values[3][ELEMENTS], host[ELEMENTS], device[ELEMENTS], alone[ELEMENTS];
    clattn_status status;
    char trouble[512];
} worker;

/* Both faces, the expert one on a queue of the thread's own. */
static clattn_status use_plan(worker *w)
{
    clattn_status status = clattn_attention_plan_create(ct_context(), &w->desc, &w->plan);
    for (int round = 0; round < ROUNDS && !status; round++) {
        cl_event done = NULL;
        status = clattn_attention_plan_run(w->plan, &w->arrays);
        if (!status)
            status = clattn_attention_enqueue(w->plan, w->queue, &w->buffers, 0, NULL, &done);
        if (!status) {
            clWaitForEvents(1, &done);
            clReleaseEvent(done);
        }
    }
    return status;
}

static void *work(void *place)
{
    worker *w = place;
    w->status = use_plan(w);
    snprintf(w->trouble, sizeof w->trouble, "%s: %s", w->desc.kernel, w->status ? clattn_last_message() : "");
    return NULL;
}

/* Row `number` of those that take the description, counted round and round. */
static const char *nth_row(const clattn_attention_desc *desc, int number)
{
    const char *rows[64];
    int count = 0;
    for (size_t row = 0; clattn_kernel_name(row) && count < 64; row++) {
        const char *name = clattn_kernel_name(row);
        if (ct_suite_size() != CT_FULL && strcmp(name, "steps-clblast") == 0)
            continue;
        if (clattn_attention_supports(ct_context(), desc, name) == CLATTN_OK)
            rows[count++] = name;
    }
    assert_true(count > 0);
    return rows[number % count];
}

static cl_mem upload(cl_mem_flags flags, float *values)
{
    cl_int error;
    cl_mem buffer =
        clCreateBuffer(ct_cl(), flags | CL_MEM_COPY_HOST_PTR, sizeof(float) * ELEMENTS, values, &error);
    ct_cl_ok(error);
    return buffer;
}

static void begin(worker *w, int number)
{
    cl_int error;
    ct_random random = ct_random_from((uint64_t)number);
    clattn_attention_desc_init(&w->desc, 1, HEADS, HEADS, LENGTH, LENGTH, D, D);
    w->desc.kernel = nth_row(&w->desc, number);
    w->desc.causal = number & 1;
    for (int i = 0; i < 3 * ELEMENTS; i++)
        w->values[i / ELEMENTS][i % ELEMENTS] = (float)ct_random_normal(&random);
    clattn_attention_call_init(&w->desc, CLATTN_BHSD, &w->arrays);
    w->buffers = w->arrays;
    w->arrays.q.host = w->values[0];
    w->arrays.k.host = w->values[1];
    w->arrays.v.host = w->values[2];
    w->arrays.out.host = w->host;
    w->buffers.q.buffer = upload(CL_MEM_READ_ONLY, w->values[0]);
    w->buffers.k.buffer = upload(CL_MEM_READ_ONLY, w->values[1]);
    w->buffers.v.buffer = upload(CL_MEM_READ_ONLY, w->values[2]);
    w->buffers.out.buffer = upload(CL_MEM_READ_WRITE, w->device);
    w->queue = clCreateCommandQueue(ct_cl(), ct_device(), 0, &error);
    ct_cl_ok(error);
}

static void finish(worker *w)
{
    ct_cl_ok(clEnqueueReadBuffer(w->queue, w->buffers.out.buffer, CL_TRUE, 0, sizeof w->device, w->device, 0,
                                 NULL, NULL));
    clattn_attention_plan_destroy(w->plan);
    clReleaseMemObject(w->buffers.q.buffer);
    clReleaseMemObject(w->buffers.k.buffer);
    clReleaseMemObject(w->buffers.v.buffer);
    clReleaseMemObject(w->buffers.out.buffer);
    clReleaseCommandQueue(w->queue);
}

static void threads_on_one_context_compute_as_one_thread_does(void **state)
{
    (void)state;
    static worker workers[THREADS];
    for (int i = 0; i < THREADS; i++)
        begin(&workers[i], i);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        worker *w = &workers[i];
        if (w->status)
            ct_fail("%s", w->trouble);
        w->arrays.out.host = w->alone;
        ct_ok(clattn_attention_plan_run(w->plan, &w->arrays));
        finish(w);
        ct_subject("%s", w->desc.kernel);
        assert_memory_equal(w->host, w->alone, sizeof w->alone);
        assert_memory_equal(w->device, w->alone, sizeof w->alone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_on_one_context_compute_as_one_thread_does),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
