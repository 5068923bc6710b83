/* tools/probe/icds.h: the drivers that the loader of OpenCL would load, found as it finds them: .icd files,
 * each with the name of a library. Called by gather.c and doctor.c. */
#ifndef TOOLS_PROBE_ICDS_H
#define TOOLS_PROBE_ICDS_H

#include "files/array.h"

/* Where a program looks at the machine from; tests have trees and environments of their own. */
typedef struct tool_place {
    const char *root;                          /* before every path; "" is the machine itself */
    const char *(*variable)(const char *name); /* as getenv */
    bool (*may_open)(const char *path);        /* for reading and writing */
} tool_place;

/* The machine and the environment of this process. */
extern const tool_place tool_here;

typedef enum tool_icd_state {
    ICD_NAMED,     /* has a library's name */
    ICD_NO_NAME,   /* its first line is empty, or no text */
    ICD_UNREADABLE /* is not there, or may not be read */
} tool_icd_state;

typedef struct tool_icd {
    char *file;    /* of the .icd; NULL: the environment names the library itself */
    char *library; /* first line; NULL unless NAMED */
    tool_icd_state state;
} tool_icd;

typedef struct tool_icds {
    tool_icd *icd;
    size_t count;
    char *source;         /* the folder, file or library that was looked at, root included */
    const char *variable; /* that named it, or NULL: the usual folder */
    bool missing;         /* `source` is not there */
} tool_icds;

/* Those of OCL_ICD_VENDORS (a folder, an .icd file or a library), else OPENCL_VENDOR_PATH (a folder), else
 * /etc/OpenCL/vendors; and the libraries of OCL_ICD_FILENAMES. In the order of their names. */
bool tool_icds_find(const tool_place *place, tool_icds *icds, tool_error *error);
void tool_icds_free(tool_icds *icds); /* all zero is allowed */

#endif
