/* Computes a small attention with a known answer through the installed library.
 * Built outside the project by check.sh: with the CMake package, with pkg-config, shared and static. */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>

int main(void)
{
    const float identity[4] = { 1, 0, 0, 1 }, v[4] = { 1, 2, 3, 4 };
    const float expected[4] = { 1.6604769f, 2.6604769f, 2.3395231f, 3.3395231f };
    float out[4] = { 0 };
    clattn_attention_desc desc;
    clattn_attention_desc_init(&desc, 1, 1, 1, 2, 2, 2, 2);
    clattn_attention_call call;
    clattn_attention_call_init(&desc, CLATTN_BHSD, &call);
    call.q.host = identity;
    call.k.host = identity;
    call.v.host = v;
    call.out.host = out;
    if (clattn_attention_run(NULL, &desc, &call) != CLATTN_OK) {
        fprintf(stderr, "%s\n", clattn_last_message());
        return 1;
    }
    for (int i = 0; i < 4; i++)
        if (!(fabsf(out[i] - expected[i]) < 1e-5f)) {
            fprintf(stderr, "out[%d] is %g, not %g\n", i, (double)out[i], (double)expected[i]);
            return 1;
        }
    clattn_default_context_release();
    printf("%s\n", clattn_version());
    return 0;
}
