// nn/heads.cl: copies the rows of equal heads between the unsplit and the split form. Built by host/nn/heads.c.
// One work-group copies one row: columns 0 to `size` - 1, then zeros up to `width`.
#if !defined(ELEMENT) || !defined(ITEMS)
#error "needs -D ELEMENT (a type of the elements' size) and ITEMS (work-items of a group)"
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void heads_copy(ulong rows, ulong heads, ulong size, ulong width,
                __global const ELEMENT *from, ulong from_offset, ulong from_batch, ulong from_head, ulong from_row,
                __global ELEMENT *to, ulong to_offset, ulong to_batch, ulong to_head, ulong to_row)
{
    const ulong group = get_group_id(0), line = group / rows, batch = line / heads;
    const ulong row = group - line * rows, head = line - batch * heads;
    from += from_offset + batch * from_batch + head * from_head + row * from_row;
    to += to_offset + batch * to_batch + head * to_head + row * to_row;
    for (ulong c = get_local_id(0); c < width; c += ITEMS)
        to[c] = c < size ? from[c] : (ELEMENT)0;
}
