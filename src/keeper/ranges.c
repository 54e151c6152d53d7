#include "keeper/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

void hf_ranges_init(struct hf_ranges *ranges)
{
    *ranges = (struct hf_ranges){.capacity = 1};
    ranges->spans = &ranges->one;
}

void hf_ranges_free(struct hf_ranges *ranges)
{
    if (ranges->spans != &ranges->one)
        free(ranges->spans);
    hf_ranges_init(ranges);
}

/* Returns the first span that ends at `at` or behind it. */
static uint32_t find(const struct hf_ranges *ranges, uint64_t at)
{
    uint32_t low = 0, high = ranges->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (ranges->spans[middle].last < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A change replaces the spans [from, to) by n new ones: the rest of the first span, the part that
 * changes, the rest of the last span. */
struct change {
    uint32_t from, to, n;
    struct hf_span spans[3];
};

static void join(struct change *change, struct hf_span span)
{
    struct hf_span *before = change->n > 0 ? &change->spans[change->n - 1] : NULL;

    if (before && before->mode == span.mode && before->last + 1 == span.first)
        before->last = span.last;
    else
        change->spans[change->n++] = span;
}

static struct change plan(const struct hf_ranges *ranges, const struct hf_span *part)
{
    const struct hf_span *spans = ranges->spans;
    struct change change = {.from = find(ranges, part->first > 0 ? part->first - 1 : 0)};

    change.to = change.from;
    if (change.from < ranges->count && spans[change.from].first < part->first) {
        struct hf_span left = spans[change.from];

        if (left.last >= part->first)
            left.last = part->first - 1;
        join(&change, left);
    }
    if (part->mode != HF_KEEPER_NONE)
        join(&change, *part);
    while (change.to < ranges->count && spans[change.to].first <= part->last)
        change.to++;
    if (change.to > change.from && spans[change.to - 1].last > part->last) {
        struct hf_span right = spans[change.to - 1];

        right.first = part->last + 1;
        join(&change, right);
    } else if (part->mode != HF_KEEPER_NONE && change.to < ranges->count &&
               spans[change.to].first == part->last + 1 && spans[change.to].mode == part->mode) {
        join(&change, spans[change.to++]);
    }
    return change;
}

uint32_t hf_ranges_count_after(const struct hf_ranges *ranges, const struct hf_span *part)
{
    struct change change = plan(ranges, part);

    return ranges->count - (change.to - change.from) + change.n;
}

int hf_ranges_reserve(struct hf_ranges *ranges, uint32_t count)
{
    uint32_t capacity = count + count / 2 + 1;
    struct hf_span *more;

    if (count <= ranges->capacity)
        return 0;
    more = malloc(capacity * sizeof(*more));
    if (!more)
        return HF_ENOMEM;
    memcpy(more, ranges->spans, ranges->count * sizeof(*more));
    if (ranges->spans != &ranges->one)
        free(ranges->spans);
    ranges->spans = more;
    ranges->capacity = capacity;
    return 0;
}

void hf_ranges_set(struct hf_ranges *ranges, const struct hf_span *part)
{
    struct change change = plan(ranges, part);
    uint32_t behind = ranges->count - change.to;

    HF_ASSERT(part->first <= part->last && part->last <= HF_RANGE_LAST);
    HF_ASSERT(change.from + change.n + behind <= ranges->capacity);
    memmove(ranges->spans + change.from + change.n, ranges->spans + change.to,
            behind * sizeof(*ranges->spans));
    memcpy(ranges->spans + change.from, change.spans, change.n * sizeof(*ranges->spans));
    ranges->count = change.from + change.n + behind;
}

struct hf_span hf_ranges_at(const struct hf_ranges *ranges, uint64_t at, uint64_t last)
{
    uint32_t i = find(ranges, at);
    struct hf_span stretch = {.first = at, .last = last, .mode = HF_KEEPER_NONE};
    const struct hf_span *span = &ranges->spans[i];

    if (i == ranges->count)
        return stretch;
    if (span->first <= at) {
        stretch.mode = span->mode;
        stretch.last = span->last < last ? span->last : last;
    } else if (span->first <= last) {
        stretch.last = span->first - 1;
    }
    return stretch;
}

bool hf_ranges_cover(const struct hf_ranges *ranges, const struct hf_span *part)
{
    uint64_t at = part->first;

    for (;;) {
        struct hf_span stretch = hf_ranges_at(ranges, at, part->last);

        if (stretch.mode < part->mode)
            return false;
        if (stretch.last == part->last)
            return true;
        at = stretch.last + 1;
    }
}

bool hf_ranges_any_exclusive(const struct hf_ranges *ranges)
{
    for (uint32_t i = 0; i < ranges->count; i++) {
        if (ranges->spans[i].mode == HF_KEEPER_EXCLUSIVE)
            return true;
    }
    return false;
}

bool hf_range_clamp(uint64_t offset, uint64_t length, struct hf_span *out)
{
    if (offset > HF_RANGE_LAST)
        return false;
    out->first = offset;
    out->last =
        length == 0 || length - 1 > HF_RANGE_LAST - offset ? HF_RANGE_LAST : offset + length - 1;
    return true;
}
