#include "core/claims/sum.h"

#include <string.h>

#include "base/error.h"

enum { ROOM_FIRST = 4 };

void hf_sum_free(struct hf_sum *sum, const struct hf_alloc *alloc)
{
    hf_free(alloc, sum->at);
    *sum = (struct hf_sum){0};
}

/* Returns the index of the first span that ends at this byte or behind it; n: there is none. */
static uint32_t find(const struct hf_sum *sum, uint64_t byte)
{
    uint32_t low = 0;
    uint32_t high = sum->n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (sum->at[middle].last < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum hf_claim_mode hf_sum_at(const struct hf_sum *sum, uint64_t byte, uint64_t *last)
{
    uint32_t i = find(sum, byte);

    if (i < sum->n && sum->at[i].first <= byte) {
        *last = sum->at[i].last;
        return sum->at[i].mode;
    }
    *last = i < sum->n ? sum->at[i].first - 1 : UINT64_MAX;
    return HF_CLAIM_NONE;
}

bool hf_sum_covers(const struct hf_sum *sum, uint64_t first, uint64_t last, enum hf_claim_mode mode)
{
    uint64_t end;

    for (;; first = end + 1) {
        if (hf_sum_at(sum, first, &end) < mode)
            return false;
        if (end >= last)
            return true;
    }
}

uint32_t hf_sum_n_lowered(const struct hf_sum *sum, uint64_t first, uint64_t last,
                          enum hf_claim_mode mode)
{
    const struct hf_span *span = &sum->at[find(sum, first)];
    uint32_t rest = (span->first < first) + (span->last > last);

    return sum->n + rest - (mode == HF_CLAIM_NONE);
}

static int reserve(struct hf_sum *sum, const struct hf_alloc *alloc, uint32_t more)
{
    uint32_t room = sum->room ? sum->room : ROOM_FIRST;
    void *at;

    while (room < sum->n + more)
        room *= 2;
    if (room == sum->room)
        return 0;
    at = hf_realloc(alloc, sum->at, room * sizeof(sum->at[0]));
    if (!at)
        return HF_ENOMEM;
    sum->at = at;
    sum->room = room;
    return 0;
}

int hf_sum_reserve(struct hf_sum *sum, const struct hf_alloc *alloc, uint32_t n)
{
    return reserve(sum, alloc, 3 * n); /* a change makes at most two borders and a span */
}

/* Replaces spans i to j - 1 by `to` or, if `to` is empty, by nothing. The caller has made room. */
static void replace(struct hf_sum *sum, uint32_t i, uint32_t j, struct hf_span to)
{
    uint32_t n = to.first <= to.last && to.mode != HF_CLAIM_NONE;

    memmove(&sum->at[i + n], &sum->at[j], (sum->n - j) * sizeof(sum->at[0]));
    sum->n = sum->n - (j - i) + n;
    if (n)
        sum->at[i] = to;
}

/*
 * Splits the span that has this byte in its middle, so that a span begins with the byte. The caller
 * has made room.
 */
static void cut(struct hf_sum *sum, uint64_t byte)
{
    uint32_t i = find(sum, byte);

    if (i == sum->n || sum->at[i].first >= byte)
        return;
    replace(sum, i, i, (struct hf_span){sum->at[i].first, byte - 1, sum->at[i].mode});
    sum->at[i + 1].first = byte;
}

/* Joins spans i - 1 and i if they touch and have the same mode. */
static void join(struct hf_sum *sum, uint32_t i)
{
    if (i == 0 || i >= sum->n || sum->at[i - 1].mode != sum->at[i].mode ||
        sum->at[i - 1].last + 1 != sum->at[i].first)
        return;
    sum->at[i - 1].last = sum->at[i].last;
    replace(sum, i, i + 1, (struct hf_span){1, 0, HF_CLAIM_NONE});
}

int hf_sum_set(struct hf_sum *sum, const struct hf_alloc *alloc, uint64_t first, uint64_t last,
               enum hf_claim_mode mode)
{
    uint32_t i, j;

    if (reserve(sum, alloc, 3) < 0) /* a change makes at most two borders and a span */
        return HF_ENOMEM;
    cut(sum, first);
    if (last < UINT64_MAX)
        cut(sum, last + 1);
    i = find(sum, first);
    for (j = i; j < sum->n && sum->at[j].first <= last; j++)
        ;
    replace(sum, i, j, (struct hf_span){first, last, mode});
    join(sum, i + 1);
    join(sum, i);
    return 0;
}

int hf_sum_raise(struct hf_sum *sum, const struct hf_alloc *alloc, uint64_t first, uint64_t last,
                 enum hf_claim_mode mode)
{
    uint64_t end;

    /* In the worst case each span of the range is stronger than `mode`, with a new span on either
     * side. */
    if (reserve(sum, alloc, sum->n + 3) < 0)
        return HF_ENOMEM;
    for (;; first = end + 1) {
        enum hf_claim_mode has = hf_sum_at(sum, first, &end);

        if (end > last)
            end = last;
        if (has < mode && hf_sum_set(sum, alloc, first, end, mode) < 0)
            return HF_ENOMEM; /* cannot happen, because room was reserved above */
        if (end == last)
            return 0;
    }
}
