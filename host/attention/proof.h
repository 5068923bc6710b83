/* host/attention/proof.h: whether the kernels of a row give right numbers on a device. Called by plan.c and
 * variants.c. */
#ifndef CA_ATTENTION_PROOF_H
#define CA_ATTENTION_PROOF_H

#include "attention/variants.h"

/* False, with the reason, when an earlier proof found the row wrong for problems that compile to the same
 * kernels. */
bool ca_proof_allows(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                     char reason[CLATTN_TEXT_BYTES]);

/* Runs the row's kernels, as they are built for this problem, on a few short rows and compares with double
 * precision, unless that has been done before on this device, driver and version. UNSUPPORTED with the
 * numbers when they are wrong; what keeps the test itself from running, such as a lack of memory, is OK and
 * no verdict. */
clattn_status ca_proof_run(const ca_variant *row, clattn_context *context, const ca_problem *problem);

#endif
