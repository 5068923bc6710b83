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

// The same for LANES numbers at once, where LANES is defined.
#define CA_LANES(name) CA_PASTE(name, LANES)
#define CA_LOAD_LANES_F32(pointer) CA_LANES(vload)(0, pointer)
#define CA_LOAD_LANES_F16(pointer) CA_LANES(vload_half)(0, pointer)
#define CA_LOAD_LANES_BF16(pointer) \
    CA_LANES(as_float)(CA_LANES(convert_uint)(CA_LANES(vload)(0, pointer)) << 16)

#define CA_STORE_LANES_F32(value, pointer) CA_LANES(vstore)(value, 0, pointer)
#define CA_STORE_LANES_F16(value, pointer) CA_PASTE(CA_LANES(vstore_half), _rte)(value, 0, pointer)
#define CA_STORE_LANES_BF16(value, pointer) CA_LANES(vstore)(ca_bf16_from_lanes(value), 0, pointer)

#ifdef LANES
static inline CA_LANES(ushort) ca_bf16_from_lanes(CA_LANES(float) x)
{
    const CA_LANES(uint) bits = CA_LANES(as_uint)(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return CA_LANES(convert_ushort)(isnan(x) ? bits >> 16 | 0x40 : rounded);
}
#endif

#define CA_IS_F32 1
#define CA_IS_F16 2
#define CA_IS_BF16 3
#define CA_IS(name) CA_PASTE(CA_IS_, name)

#define STORAGE CA_PASTE(CA_STORAGE_, TYPE)
#define LOAD CA_PASTE(CA_LOAD_, TYPE)
#define STORE CA_PASTE(CA_STORE_, TYPE)
#define LOAD_LANES CA_PASTE(CA_LOAD_LANES_, TYPE)
#define STORE_LANES CA_PASTE(CA_STORE_LANES_, TYPE)
