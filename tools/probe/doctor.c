/* stub */
#include "probe/doctor.h"
bool tool_doctor(const tool_place *place, const tool_icds *icds, cJSON *document, tool_error *error)
{
    (void)place;
    (void)icds;
    (void)document;
    (void)error;
    return true;
}
void tool_doctor_print(FILE *to, const cJSON *document)
{
    (void)to;
    (void)document;
}
void tool_doctor_install(const tool_place *place, char *command, size_t bytes)
{
    (void)place;
    snprintf(command, bytes, "x");
}
