// cl/attention/params.h: what every attention kernel is told, one struct by value; read by the host as C and by the
// kernels as OpenCL C. Offsets and strides count elements.
#ifndef CA_ATTENTION_PARAMS_H
#define CA_ATTENTION_PARAMS_H

#ifdef __OPENCL_VERSION__
typedef long ca_i64;
typedef int ca_i32;
typedef float ca_f32;
#else
typedef cl_long ca_i64;
typedef cl_int ca_i32;
typedef cl_float ca_f32;
#endif

#define CA_OPEN 0x7fffffff // a window without a bound on that side

typedef struct ca_view {
    ca_i64 offset, batch, head, row;
} ca_view;

typedef struct ca_params {
    ca_view q, k, v, out, lse, keep, bias, weights;
    ca_i64 keep_column, bias_column; // 1, or 0 where one column serves all keys
    ca_i64 sinks_offset, rows_q_offset, rows_kv_offset;
    ca_i64 total_q, total_kv; // packed rows in all
    ca_i32 heads_q, group, len_q, len_kv;
    ca_i32 packed;                  // rows_q and rows_kv hold cu_seqlens
    ca_i32 has_rows_q, has_rows_kv; // otherwise: whether they hold lengths
    ca_i32 has_keep, has_sinks, has_lse;
    ca_i32 left, right; // window around the diagonal, causal folded in; CA_OPEN
    ca_i32 top_left;
    ca_i32 parts; // that split.cl cuts keys into
    ca_f32 scale, softcap; // softcap 0: none
} ca_params;

#endif
