// Uses every installed header from C++.
// check.sh writes headers.inc, one include line a header.
#include "headers.inc"
#include <cstdio>

int main()
{
    clattn_attention_desc desc;
    clattn_attention_desc_init(&desc, 1, 1, 1, 1, 1, 1, 1);
    std::printf("%s\n", clattn_version());
    return desc.heads_q == 1 && clattn_kernel_count() > 0 ? 0 : 1;
}
