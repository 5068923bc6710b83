/* host/base/known_bad.h: drivers that are known to be bad. Called by device.c and attention/variants.c. */
#ifndef CA_BASE_KNOWN_BAD_H
#define CA_BASE_KNOWN_BAD_H

#include <clattn/context.h>

/* Why the device, or this row of a kernel table on it, is known to be bad; NULL when it is not. A `row` of
 * NULL asks about the device. Static storage. */
const char *ca_known_bad(const clattn_device_info *info, const char *row);

#endif
