/* tests/support/clblast.h: CLBlast's parameters in a test process. Set by the harness, and by tests/gemm. */
#ifndef CT_CLBLAST_H
#define CT_CLBLAST_H

#include <stddef.h>

/* Fails the test when CLBlast refuses. */
void ct_clblast_override(const char *kernel, size_t count, const char **names, const size_t *values);

/* Small tiles: with CLBlast's own, CPUs compile for half a minute. tests/tools runs it with its own. */
void ct_clblast_small_tiles(void);

#endif
