/* tests/support/harness.h: what every test stands on: the context under test, the size of the suite, seeded
 * random numbers, and checks of status and message. Tests include it first. */
#ifndef CT_HARNESS_H
#define CT_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <clattn/clattn.h>

/* How much to run, from CLATTN_TEST_SIZE: full (default), small (slow compilers: few distinct kernels), tiny
 * (simulators: short rows, a handful of cases). */
typedef enum ct_size { CT_TINY, CT_SMALL, CT_FULL } ct_size;
ct_size ct_suite_size(void);

/* The value for this suite size. */
int64_t ct_by_size(int64_t tiny, int64_t small, int64_t full);

/* Group fixtures: open the one device of the chosen OpenCL implementation (or CLATTN_TEST_DEVICE, a selector)
 * in a strict context; at the end print one line and release everything. No device ends the program with
 * status 1. Built programs are kept in CLATTN_CACHE_DIR when that is set, in no other context of the tests.
 * CLATTN_TEST_FLOAT_WIDTH, when set, is what the device says of its float vectors: a simulator then takes the
 * rows for CPUs. */
int ct_setup(void **state);
int ct_teardown(void **state);

/* What the system says is the user's home. NULL, as at first: it knows none. */
extern const char *ct_home;

clattn_context *ct_context(void);
cl_context ct_cl(void);
cl_device_id ct_device(void);
cl_command_queue ct_queue(void); /* in order, the test's own, not the context's */

/* Runs `at_teardown` before the context goes. */
void ct_at_teardown(void (*at_teardown)(void));

/* Random numbers: the same from the same seed. CLATTN_TEST_SEED, when set, is mixed into every seed. */
typedef struct ct_random {
    uint64_t state;
} ct_random;
ct_random ct_random_from(uint64_t seed);
uint64_t ct_random_bits(ct_random *random);
double ct_random_normal(ct_random *random);                            /* mean 0, variance 1, within +-6 */
int64_t ct_random_int(ct_random *random, int64_t first, int64_t last); /* both may come */
uint64_t ct_seed(void);                                                /* CLATTN_TEST_SEED, or 1 */

/* What the test is at, printed when one of the checks below or of compare.h fails. Empty at first. */
void ct_subject(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *ct_subject_text(void);
void ct_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails the test with the library's message when `call` is not OK. */
#define ct_ok(call) ct_ok_at((call), #call, __FILE__, __LINE__)
void ct_ok_at(clattn_status status, const char *call, const char *file, int line);

/* Fails the test unless `call` gives `want` and a one-line message that holds every text listed. */
#define ct_rejects(call, want, ...)                                                                          \
    ct_rejects_at((call), (want), (const char *const[]){ __VA_ARGS__, NULL }, #call, __FILE__, __LINE__)
void ct_rejects_at(clattn_status status, clattn_status want, const char *const *texts, const char *call,
                   const char *file, int line);

/* Fails the test when an OpenCL call of the test itself fails. */
#define ct_cl_ok(call) ct_cl_ok_at((call), #call, __FILE__, __LINE__)
void ct_cl_ok_at(cl_int error, const char *call, const char *file, int line);

/* calloc that fails the test. */
void *ct_alloc(size_t bytes);

#endif
