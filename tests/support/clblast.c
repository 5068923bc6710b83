/* tests/support/clblast.c: overrides CLBlast's parameters for the device under test. */
#include "support/clblast.h"

#include "support/harness.h"

#include <clblast_c.h>

void ct_clblast_override(const char *kernel, size_t count, const char **names, const size_t *values)
{
    assert_int_equal(
        CLBlastOverrideParameters(ct_device(), kernel, CLBlastPrecisionSingle, count, names, values),
        CLBlastSuccess);
}

void ct_clblast_small_tiles(void)
{
    const char *direct_names[] = { "KWID", "MDIMAD", "MDIMCD", "NDIMBD", "NDIMCD",
                                   "PADA", "PADB",   "VWMD",   "VWND",   "WGD" };
    const size_t direct[] = { 2, 8, 8, 8, 8, 1, 1, 1, 1, 8 };
    ct_clblast_override("XgemmDirect", sizeof direct / sizeof direct[0], direct_names, direct);
    const char *transpose_names[] = { "TRA_DIM", "TRA_PAD", "TRA_SHUFFLE", "TRA_WPT" };
    ct_clblast_override("Transpose", 4, transpose_names, (const size_t[]){ 8, 0, 0, 1 });
    const char *pad_names[] = { "PADTRA_PAD", "PADTRA_TILE", "PADTRA_WPT" };
    ct_clblast_override("Padtranspose", 3, pad_names, (const size_t[]){ 0, 8, 1 });
    const char *names[] = { "GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB",
                            "NDIMC", "NWG",  "SA",  "SB",  "STRM",  "STRN",  "VWM", "VWN" };
    const size_t indirect[] = { 0, 1, 16, 2, 8, 8, 16, 8, 8, 16, 0, 0, 0, 0, 1, 1 };
    ct_clblast_override("Xgemm", sizeof indirect / sizeof indirect[0], names, indirect);
}
