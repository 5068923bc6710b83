// cl/base/types.cl: storage types. TYPE names that of the tensors: F32, F16 or BF16. Kernels load to float and store from
// float; none of it needs cl_khr_fp16.
#ifndef TYPE
#error "TYPE must be F32, F16 or BF16"
#endif

#define CA_PASTE2(a, b) a##b
#define CA_PASTE(a, b) CA_PASTE2(a, b)

#define CA_STORAGE_F32 float
#define CA_STORAGE_F16 half
#define CA_STORAGE_BF16 ushort

#define CA_LOAD_F32(pointer, index) ((pointer)[index])
#define CA_LOAD_F16(pointer, index) vload_half(index, pointer)
#define CA_LOAD_BF16(pointer, index) as_float((uint)(pointer)[index] << 16)

#define CA_STORE_F32(value, pointer, index) ((pointer)[index] = (value))
#define CA_STORE_F16(value, pointer, index) vstore_half_rte(value, index, pointer)
#define CA_STORE_BF16(value, pointer, index) ((pointer)[index] = ca_bf16_from(value))

static inline ushort ca_bf16_from(float x)
{
    const uint bits = as_uint(x);
    return isnan(x) ? (ushort)(bits >> 16 | 0x40) : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define CA_IS_F32 1
#define CA_IS_F16 2
#define CA_IS_BF16 3
#define CA_IS(name) CA_PASTE(CA_IS_, name)

#define STORAGE CA_PASTE(CA_STORAGE_, TYPE)
#define LOAD CA_PASTE(CA_LOAD_, TYPE)
#define STORE CA_PASTE(CA_STORE_, TYPE)
