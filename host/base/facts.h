/* host/base/facts.h: a device's claims. Called by features.c and device.c. */
#ifndef CA_BASE_FACTS_H
#define CA_BASE_FACTS_H

#include <clattn/probe.h>

/* The extensions that a device claims, malloc'd; "" when it does not say; NULL when there is no memory. */
char *ca_device_extensions(cl_device_id id);

/* Whether `name` is one of them. */
bool ca_device_claims(const char *extensions, const char *name);

/* OpenCL version of the device: 12, 20, 21, 22, 30. */
int ca_device_version(cl_device_id id);

/* The first of the sizes of sub-groups that Intel's extension lists; 0 when there is none. */
size_t ca_device_sub_group_size(cl_device_id id);

/* Copies what a driver said, cut to fit, without the spaces around it: other than valid UTF-8 and control
 * characters become '?'. */
void ca_copy_clean(const char *text, char out[CLATTN_TEXT_BYTES]);

#endif
