/* host/base/known_bad.c: the table of drivers that are known to be bad, with where that is known from. The
 * default pick takes them last, and rows named here are refused; clattn_context_options.use_known_bad asks
 * for them all the same. Called by device.c and attention/variants.c. */
#include "base/known_bad.h"

#include "base/os.h"

#include <string.h>

typedef struct known_bad {
    const char *platform, *device, *driver; /* parts of the device's texts, "" for any */
    const char *row;                        /* of a kernel table; NULL: the device as a whole */
    const char *reason;
    const char *source;
} known_bad;

static const known_bad table[] = {
    { "Clover", "", "", NULL, "Mesa's Clover stops at OpenCL 1.1 and was dropped in Mesa 25.2: use rusticl",
      "https://github.com/weldr/lorax/pull/1498" },
    { "Intel Gen OCL Driver", "", "", NULL,
      "Beignet multiplies matrices wrongly and is no longer maintained: use Intel's compute runtime",
      "https://github.com/CNugteren/CLBlast/issues/231" },
};

const char *ca_known_bad(const clattn_device_info *info, const char *row)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        const known_bad *bad = &table[i];
        const bool same_row = bad->row == NULL ? row == NULL : row != NULL && strcmp(bad->row, row) == 0;
        if (same_row && ca_find_text(info->platform, bad->platform) != NULL &&
            ca_find_text(info->name, bad->device) != NULL && ca_find_text(info->driver, bad->driver) != NULL)
            return bad->reason;
    }
    return NULL;
}
