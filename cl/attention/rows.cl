// cl/attention/rows.cl: which rows a sequence has, and which keys a query may see. Causal, window and lengths all come
// to one interval of keys per query; its ends never fall from one query to the next.

// Rows of one batch: first row in memory, and number.
typedef struct ca_rows {
    long first_q, first_kv;
    int len_q, len_kv;
} ca_rows;

static inline void ca_find_rows(const ca_params *p, __global const int *rows_q, __global const int *rows_kv, int b,
                                ca_rows *r)
{
    r->first_q = r->first_kv = 0;
    r->len_q = p->len_q;
    r->len_kv = p->len_kv;
    if (p->packed) {
        const long q = rows_q[p->rows_q_offset + b], kv = rows_kv[p->rows_kv_offset + b];
        r->first_q = clamp(q, 0L, p->total_q);
        r->first_kv = clamp(kv, 0L, p->total_kv);
        r->len_q = (int)clamp(rows_q[p->rows_q_offset + b + 1] - q, 0L, min((long)p->len_q, p->total_q - r->first_q));
        r->len_kv =
            (int)clamp(rows_kv[p->rows_kv_offset + b + 1] - kv, 0L, min((long)p->len_kv, p->total_kv - r->first_kv));
    } else {
        if (p->has_rows_q)
            r->len_q = clamp(rows_q[p->rows_q_offset + b], 0, p->len_q);
        if (p->has_rows_kv)
            r->len_kv = clamp(rows_kv[p->rows_kv_offset + b], 0, p->len_kv);
    }
}

// First and last key that query i sees by position; empty when last < first.
static inline int ca_first_key(const ca_params *p, const ca_rows *r, int i)
{
    const long level = (long)i + (p->top_left ? 0 : r->len_kv - r->len_q);
    return p->left == CA_OPEN ? 0 : (int)clamp(level - p->left, 0L, (long)r->len_kv);
}

static inline int ca_last_key(const ca_params *p, const ca_rows *r, int i)
{
    const long level = (long)i + (p->top_left ? 0 : r->len_kv - r->len_q);
    return p->right == CA_OPEN ? r->len_kv - 1 : (int)clamp(level + p->right, -1L, (long)r->len_kv - 1);
}

// Element offset of the start of a row.
static inline long ca_at(const ca_view *v, int b, int h, long row)
{
    return v->offset + b * v->batch + h * v->head + row * v->row;
}
