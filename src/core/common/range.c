/*
 * Byte ranges on the wire are offset and length, with length 0 for "to the end"; inside they are
 * first and last, both included, so that the end of a 64-bit file needs no 65th bit (NLM-02).
 */
#include "core/common/range.h"

bool hf_range_from_wire(uint64_t offset, uint64_t length, struct hf_range *out)
{
    out->first = offset;
    out->last = UINT64_MAX;
    if (length == 0)
        return true;
    return !__builtin_add_overflow(offset, length - 1, &out->last);
}

uint64_t hf_range_wire_length(uint64_t first, uint64_t last)
{
    return last == UINT64_MAX ? 0 : last - first + 1;
}
