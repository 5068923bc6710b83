// nn/rows.cl: small work on rows of (batch, rows, width) tensors around the matrix products. Built by host/nn/rows.c, after
// base/types.cl. One work-group has one row; strides and offsets are in elements.
#ifndef ITEMS
#error "needs -D ITEMS (work-items of a group), besides TYPE"
#endif

// Strided storage to compact floats.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void rows_load(ulong rows, ulong width, __global const STORAGE *from, ulong from_offset, ulong from_batch, ulong from_row,
               __global float *to, ulong to_offset)
{
    const ulong batch = get_group_id(0) / rows, row = get_group_id(0) - batch * rows;
    from += from_offset + batch * from_batch + row * from_row;
    to += to_offset + (batch * rows + row) * width;
    for (ulong c = get_local_id(0); c < width; c += ITEMS)
        to[c] = LOAD(from, c);
}

// Compact floats to strided storage.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void rows_store(ulong rows, ulong width, __global const float *from, ulong from_offset,
                __global STORAGE *to, ulong to_offset, ulong to_batch, ulong to_row)
{
    const ulong batch = get_group_id(0) / rows, row = get_group_id(0) - batch * rows;
    from += from_offset + (batch * rows + row) * width;
    to += to_offset + batch * to_batch + row * to_row;
    for (ulong c = get_local_id(0); c < width; c += ITEMS)
        STORE(from[c], to, c);
}

// Compact floats times a factor, added to strided ones, or instead of them when `first`.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void rows_add(ulong rows, ulong width, float factor, int first, __global const float *from,
              __global float *to, ulong to_offset, ulong to_batch, ulong to_row)
{
    const ulong batch = get_group_id(0) / rows, row = get_group_id(0) - batch * rows;
    from += (batch * rows + row) * width;
    to += to_offset + batch * to_batch + row * to_row;
    for (ulong c = get_local_id(0); c < width; c += ITEMS)
        to[c] = first ? factor * from[c] : fma(factor, from[c], to[c]);
}
