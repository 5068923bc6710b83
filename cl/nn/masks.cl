// nn/masks.cl: the module's masks in the forms that attention reads. Built by host/nn/rows.c. One work-group has one row of
// the compact result (batch, heads, rows, width); `from` has strides, 0 where it repeats.
#ifndef ITEMS
#error "needs -D ITEMS (work-items of a group)"
#endif

inline ulong mask_place(ulong group, ulong heads, ulong rows, ulong offset, ulong batch, ulong head, ulong row)
{
    const ulong line = group / rows, outer = line / heads;
    return offset + outer * batch + (line - outer * heads) * head + (group - line * rows) * row;
}

// 1 = attend.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void mask_keep(ulong heads, ulong rows, ulong width, int drop, __global const uchar *from, ulong from_offset,
               ulong from_batch, ulong from_head, ulong from_row, ulong from_column, __global uchar *to)
{
    const ulong group = get_group_id(0);
    from += mask_place(group, heads, rows, from_offset, from_batch, from_head, from_row);
    to += group * width;
    for (ulong c = get_local_id(0); c < width; c += ITEMS)
        to[c] = (from[c * from_column] != 0) != (drop != 0);
}

// 0 = attend, -infinity = hidden.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void mask_bias(ulong heads, ulong rows, ulong width, int drop, __global const uchar *from, ulong from_offset,
               ulong from_batch, ulong from_head, ulong from_row, ulong from_column, __global float *to)
{
    const ulong group = get_group_id(0);
    from += mask_place(group, heads, rows, from_offset, from_batch, from_head, from_row);
    to += group * width;
    for (ulong c = get_local_id(0); c < width; c += ITEMS)
        to[c] = (from[c * from_column] != 0) != (drop != 0) ? 0.0f : -INFINITY;
}
