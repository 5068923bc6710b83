/* tests/support/compare.h: the tolerances, all of them, and the comparison of an array with what it should
 * be. */
#ifndef CT_COMPARE_H
#define CT_COMPARE_H

#include "support/array.h"

typedef struct ct_difference {
    int64_t elements;
    int64_t worst;     /* index in contiguous order; -1: none differs */
    double got, want;  /* of the worst */
    double excess;     /* its error divided by the error allowed; above 1 fails */
    double max_error;  /* largest absolute error of a finite element */
    double mse;        /* mean squared error relative to the signal, finite elements */
    double mse_excess; /* mse divided by what is allowed; 0 where the mean is not judged */
    bool warns;        /* passes, but not the closer level */
} ct_difference;

/* Compares with `want`, contiguous, by the tolerance of the array's type. NaN is wanted where want is NaN, an
 * infinity where it is that infinity. */
ct_difference ct_compare(const ct_array *got, const double *want);
bool ct_same(const ct_difference *difference);

/* Whether two numbers agree by the f32 row of the table: for properties that hold between two results. */
bool ct_close(double got, double want);

/* Fails the test, naming the worst element, unless `got` is as wanted; prints a line at the warning level. */
void ct_expect(const ct_array *got, const double *want, const char *name);

/* One line: the largest errors that ct_expect has let pass, for each type of element. */
void ct_print_largest_errors(void);

#endif
