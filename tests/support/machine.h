/* tests/support/machine.h: a machine that is a folder: its /sys, /dev and /etc, its environment, and what its
 * user may open. Called by tests/tools/test_doctor.c. */
#ifndef CT_MACHINE_H
#define CT_MACHINE_H

#include "probe/icds.h"

extern const tool_place ct_place;
extern char ct_root[];        /* the folder */
extern const char *ct_closed; /* part of the paths that may not be opened, or NULL */

/* Fixtures of a test: an empty machine, and its end. */
int ct_machine_before(void **state);
int ct_machine_after(void **state);

/* Sets a variable of the environment; removes all. */
void ct_set(const char *name, const char *value);
void ct_unset_all(void);

/* Makes a file with this text. */
void ct_file(const char *name, const char *text);

/* A GPU on the PCI bus; `driver` and `node` may be NULL. Three whole ones. */
void ct_gpu(const char *address, const char *vendor, const char *driver, const char *node);
void ct_amd(void);
void ct_intel(void);
void ct_nvidia(void);

/* /etc/os-release; a file in /etc/OpenCL/vendors. */
void ct_distribution(const char *id);
void ct_icd(const char *name, const char *library);

#endif
