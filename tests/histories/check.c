#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

enum { CONFIGURATIONS_MAX = 1 << 20 };

struct configuration {
    uint64_t done; /* one bit per operation in flight, by its slot: it has had its moment */
    struct model_state state;
};

/* A set of configurations: an array in order of arrival, and an open hash table of places in it. */
struct set {
    struct configuration *items;
    uint32_t *places; /* the index in the array + 1; 0: this place is free */
    size_t n, size;   /* size: of the hash table, a power of two, at least twice n */
};

struct search {
    const struct history_op *slots[CHECK_IN_FLIGHT];
    uint64_t open;  /* slots in use */
    uint64_t reads; /* those operations in flight that change nothing */
    struct set now, next;
    size_t most;
    bool overflow;
};

/* ---- sets ---- */

static uint64_t hash_of(const struct configuration *c)
{
    static const struct hf_hash_key key = {0x9e3779b97f4a7c15, 0xd1b54a32d192ed03};

    return hf_hash(&key, c, sizeof(*c));
}

static void set_clear(struct set *set)
{
    if (set->n)
        memset(set->places, 0, set->size * sizeof(*set->places));
    set->n = 0;
}

static void set_place(struct set *set, uint32_t item)
{
    size_t at = hash_of(&set->items[item]) & (set->size - 1);

    while (set->places[at])
        at = (at + 1) & (set->size - 1);
    set->places[at] = item + 1;
}

static void set_grow(struct set *set)
{
    set->size = set->size ? set->size * 2 : 64;
    set->items = realloc(set->items, set->size / 2 * sizeof(*set->items));
    free(set->places);
    set->places = calloc(set->size, sizeof(*set->places));
    HF_ASSERT(set->items && set->places);
    for (uint32_t i = 0; i < set->n; i++)
        set_place(set, i);
}

static void set_add(struct set *set, const struct configuration *c)
{
    size_t at;

    if (set->n * 2 >= set->size)
        set_grow(set);
    for (at = hash_of(c) & (set->size - 1); set->places[at]; at = (at + 1) & (set->size - 1)) {
        if (memcmp(&set->items[set->places[at] - 1], c, sizeof(*c)) == 0)
            return;
    }
    set->items[set->n] = *c;
    set->places[at] = (uint32_t)++set->n;
}

static void set_free(struct set *set)
{
    free(set->items);
    free(set->places);
}

/* ---- the search ---- */

static void swap_sets(struct search *s)
{
    struct set set = s->now;

    s->now = s->next;
    s->next = set;
}

/* Gives every read in flight that is legal in this configuration its moment. */
static void place_reads(const struct search *s, struct configuration *c)
{
    for (uint64_t left = s->reads & ~c->done; left; left &= left - 1) {
        int slot = __builtin_ctzll(left);

        if (model_is_legal(&c->state, s->slots[slot]))
            c->done |= UINT64_C(1) << slot;
    }
}

static void on_invoked(struct search *s, const struct history_op *op)
{
    int slot;

    if (s->open == UINT64_MAX) {
        s->overflow = true;
        return;
    }
    slot = __builtin_ctzll(~s->open);
    s->slots[slot] = op;
    s->open |= UINT64_C(1) << slot;
    if (!model_is_read(op))
        return;
    s->reads |= UINT64_C(1) << slot;
    set_clear(&s->next);
    for (size_t i = 0; i < s->now.n; i++) {
        struct configuration c = s->now.items[i];

        place_reads(s, &c);
        set_add(&s->next, &c);
    }
    swap_sets(s);
}

/* Extends a configuration by each operation in flight that is legal in it. */
static void extend(struct search *s, struct set *reached, size_t item)
{
    for (uint64_t left = s->open & ~s->reads & ~reached->items[item].done; left; left &= left - 1) {
        int slot = __builtin_ctzll(left);
        struct configuration c = reached->items[item];

        if (!model_is_legal(&c.state, s->slots[slot]))
            continue;
        model_apply(&c.state, s->slots[slot]);
        c.done |= UINT64_C(1) << slot;
        place_reads(s, &c);
        set_add(reached, &c);
    }
}

/* The operation in this slot has completed, so it must have had its moment; if no client knows its
 * outcome, it may have. */
static void on_completed(struct search *s, int slot)
{
    uint64_t mine = UINT64_C(1) << slot;
    size_t before = s->slots[slot]->result == HISTORY_MAYBE ? s->now.n : 0;

    /* s->now becomes the set of all configurations that are reached on the way. */
    for (size_t i = 0; i < s->now.n && !s->overflow; i++) {
        if (!(s->now.items[i].done & mine))
            extend(s, &s->now, i);
        s->overflow = s->now.n > CONFIGURATIONS_MAX;
    }
    if (s->now.n > s->most)
        s->most = s->now.n;
    set_clear(&s->next);
    for (size_t i = 0; i < s->now.n; i++) {
        struct configuration c = s->now.items[i];

        if (!(c.done & mine) && i >= before)
            continue;
        c.done &= ~mine;
        set_add(&s->next, &c);
    }
    swap_sets(s);
    s->open &= ~mine;
    s->reads &= ~mine;
}

/* The slot of the operation in flight that completes first, if before this moment; -1: no operation
 * does. */
static int next_completed(const struct search *s, uint64_t before)
{
    int next = -1;

    for (uint64_t left = s->open; left; left &= left - 1) {
        int slot = __builtin_ctzll(left);

        if (s->slots[slot]->completed < before &&
            (next < 0 || s->slots[slot]->completed < s->slots[next]->completed))
            next = slot;
    }
    return next;
}

struct check_result check_ops(const struct history_op *ops, size_t n_ops,
                              const struct model_state *state)
{
    struct check_result result = {.verdict = CHECK_LINEARIZABLE};
    struct search *s = calloc(1, sizeof(*s));
    struct configuration first = {.state = *state};

    HF_ASSERT(s);
    set_add(&s->now, &first);
    for (size_t i = 0; i <= n_ops && !s->overflow; i++) {
        uint64_t until = i < n_ops ? ops[i].invoked : UINT64_MAX;
        int slot;

        while (!s->overflow && (slot = next_completed(s, until)) >= 0) {
            result.failed_op = (size_t)(s->slots[slot] - ops);
            on_completed(s, slot);
            if (s->now.n == 0)
                break;
        }
        if (s->now.n == 0)
            break;
        if (!s->open && s->now.n == 1 && i < n_ops) {
            result.is_quiet = true;
            result.quiet_ops = i;
            result.quiet_state = s->now.items[0].state;
        }
        if (i < n_ops)
            on_invoked(s, &ops[i]);
    }
    if (s->overflow)
        result.verdict = CHECK_TOO_MANY;
    else if (s->now.n == 0)
        result.verdict = CHECK_VIOLATION;
    result.configurations = s->most;
    set_free(&s->now);
    set_free(&s->next);
    free(s);
    return result;
}
