// cl/attention/steps.cl: what lies around the two matrix products of unfused attention. The products take packed f32
// matrices, one for each pair z of batch and kv head; the query heads of a group lie one after the other as rows:
//
//     Q [z][group * rows][D]   K, V [z][keys][D]   S [z][group * rows][len_kv]   O [z][group * rows][DV]
//
// Needs: TYPE, BIAS, ITEMS (work-items a group of softmax, columns a group of pack and finish).
// Packs `rows` rows from row0 on, `columns` wide, of every head of each z: `each` heads a z (group for q, 1 for k and v).
// Rows past the sequence become 0. With `guard`, values that are not finite become 0 as well, and raise the flag.
// Groups: columns / ITEMS, rows, z * each.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void pack(const ca_params p, const ca_view view, const int is_query, const int each, const int z0, const int row0,
          const int columns, const int guard, __global const STORAGE *restrict x, __global float *restrict packed,
          __global int *restrict flag, __global const int *restrict rows_q, __global const int *restrict rows_kv)
{
    const int c = get_global_id(0), row = row0 + get_group_id(1);
    const long head = (long)z0 * each + get_group_id(2);
    const int heads = is_query ? p.heads_q : p.heads_q / p.group;
    const int b = head / heads, h = head - (long)b * heads;
    ca_rows r;
    ca_find_rows(&p, rows_q, rows_kv, b, &r);
    if (c < columns) {
        float value = 0;
        if (row < (is_query ? r.len_q : r.len_kv))
            value = LOAD(x, ca_at(&view, b, h, (is_query ? r.first_q : r.first_kv) + row) + c);
        if (guard && !isfinite(value)) {
            value = 0;
            atomic_or(flag, 1);
        }
        packed[((long)get_group_id(2) * get_num_groups(1) + get_group_id(1)) * columns + c] = value;
    }
}

// S = weights, from dot products times scale; lse. One group a row; hidden keys get CA_HIDDEN_WEIGHT. Lowers the flag.
// Groups: rows, z * group.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void softmax(const ca_params p, const int z0, const int row0, __global float *restrict S, __global float *restrict lse,
             __global int *restrict flag, __global const uchar *restrict keep,
             __global const BIAS_STORAGE *restrict bias, __global const float *restrict sinks,
             __global const int *restrict rows_q, __global const int *restrict rows_kv)
{
    __local float shared[ITEMS];
    const int item = get_local_id(0), i = row0 + get_group_id(0);
    const long head = (long)z0 * p.group + get_group_id(1);
    const int b = head / p.heads_q, h = head - (long)b * p.heads_q;
    ca_rows r;
    ca_find_rows(&p, rows_q, rows_kv, b, &r);
    const int from = ca_first_key(&p, &r, i), to = i < r.len_q ? ca_last_key(&p, &r, i) : -1;
    const float sink = p.has_sinks ? sinks[p.sinks_offset + h] : -INFINITY;
    S += ((long)get_group_id(1) * get_num_groups(0) + get_group_id(0)) * p.len_kv;

    float top = sink;
    for (int j = item; j < p.len_kv; j += ITEMS) {
        const float s = j < from || j > to ? -INFINITY : ca_score(&p, keep, bias, b, h, i, j, S[j]);
        S[j] = s;
        top = s > top ? s : top;
    }
    top = ca_group_max(top, shared);
    const float level = top == -INFINITY ? 0 : top;
    float sum = 0;
    for (int j = item; j < p.len_kv; j += ITEMS) {
        S[j] = S[j] == -INFINITY ? CA_HIDDEN_WEIGHT : ca_exp_float(S[j] - level);
        sum += S[j];
    }
    sum = ca_group_sum(sum, shared) + ca_exp_float(sink - level);
    const float inverse = sum == 0 ? 0 : 1 / sum;
    for (int j = item; j < p.len_kv; j += ITEMS)
        S[j] *= inverse;
    if (item == 0 && p.has_lse && (i < r.len_q || !p.packed))
        lse[ca_at(&p.lse, b, h, r.first_q + i)] = i < r.len_q && sum != 0 ? top + log(sum) : -INFINITY;
    if (item == 0 && get_group_id(0) == 0 && get_group_id(1) == 0)
        *flag = 0;
}

// out = O; where the flag is up, the product with V once more, hidden values selected away.
// Groups: columns / ITEMS, rows, z * group.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void finish(const ca_params p, const int z0, const int row0, const int columns, __global const float *restrict O,
            __global const float *restrict S, __global const STORAGE *restrict v, __global STORAGE *restrict out,
            __global const int *restrict flag, __global const int *restrict rows_q, __global const int *restrict rows_kv)
{
    const int e = get_global_id(0), i = row0 + get_group_id(1);
    const long head = (long)z0 * p.group + get_group_id(2);
    const int b = head / p.heads_q, h = head - (long)b * p.heads_q;
    ca_rows r;
    ca_find_rows(&p, rows_q, rows_kv, b, &r);
    const long row = (long)get_group_id(2) * get_num_groups(1) + get_group_id(1);
    if (e < columns && (i < r.len_q || !p.packed)) {
        float value = O[row * columns + e];
        if (*flag) {
            value = 0;
            for (int j = 0; j < r.len_kv; j++) {
                const float w = S[row * p.len_kv + j];
                if (!ca_is_hidden(w))
                    value = fma(w, LOAD(v, ca_at(&p.v, b, h / p.group, r.first_kv + j) + e), value);
            }
        }
        STORE(i < r.len_q ? value : 0, out, ca_at(&p.out, b, h, r.first_q + i) + e);
    }
}
