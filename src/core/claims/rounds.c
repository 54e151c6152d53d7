/* Rounds: what one file wants of the kernel in a turn goes to the keeper as one round, whose
 * results come back one by one. */
#include "core/claims/private.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/table/table.h"

enum {
    ROOM_FIRST = 4,
    NEXT_MAX = 512, /* the most asks of requests and waiters in one round of a file */
};

void hf_asks_rest(struct hf_core *core, struct hf_asks *asks)
{
    struct hf_claims *claims = core->claims;

    if (asks->room == ROOM_FIRST && claims->n_spare < HF_SPARE_ASKS)
        claims->spare[claims->n_spare++] = asks->at;
    else
        hf_free(core->alloc, asks->at);
    *asks = (struct hf_asks){0};
}

static int reserve(struct hf_core *core, struct hf_asks *asks, uint32_t more)
{
    uint32_t room = asks->room ? asks->room : ROOM_FIRST;
    void *at;

    while (room < asks->n + more)
        room *= 2;
    if (asks->room == 0 && room == ROOM_FIRST && core->claims->n_spare > 0) {
        asks->at = core->claims->spare[--core->claims->n_spare];
        asks->room = room;
        return 0;
    }
    if (room == asks->room)
        return 0;
    at = hf_realloc(core->alloc, asks->at, room * sizeof(asks->at[0]));
    if (!at)
        return HF_ENOMEM;
    asks->at = at;
    asks->room = room;
    return 0;
}

int hf_asks_add(struct hf_core *core, struct hf_asks *asks, const struct hf_claim_ask *ask)
{
    if (reserve(core, asks, 1) < 0)
        return HF_ENOMEM;
    asks->at[asks->n++] = *ask;
    return 0;
}

/* ---- what a request asks of the kernel ---- */

static const struct hf_claim_ask *find_ask(const struct hf_asks *asks,
                                           const struct hf_claim_ask *like)
{
    for (uint32_t i = 0; i < asks->n; i++) {
        const struct hf_claim_ask *ask = &asks->at[i];
        if (ask->kind == like->kind && ask->first == like->first && ask->last == like->last &&
            ask->mode == like->mode && !ask->corrects)
            return ask;
    }
    return NULL;
}

static struct hf_claim_said refused(enum hf_stat stat)
{
    return (struct hf_claim_said){.say = HF_SAYS_REFUSED, .stat = stat};
}

static struct hf_claim_said no_memory(struct hf_core *core)
{
    core->counters.out_of_memory++;
    return (struct hf_claim_said){.say = HF_SAYS_NO_MEMORY, .stat = HF_STAT_DENIED_NOLOCKS};
}

/* Answers a request for bytes that the kernel cannot hold because of the file system, the file
 * handle or a limit. */
static struct hf_claim_said not_mirrored(struct hf_core *core, struct hf_claim_file *cf,
                                         const struct hf_claim_ask *ask,
                                         enum hf_claim_outcome outcome)
{
    core->counters.claims_refused[outcome]++;
    if (core->config.grant_unmirrored && outcome != HF_CLAIM_STALE) {
        if (ask->kind == HF_CLAIM_RAISE)
            (void)hf_claim_file_unmirrored(core, cf, ask->first, ask->last, ask->mode);
        if (outcome == HF_CLAIM_FULL)
            hf_claim_file_full(core, cf);
        return (struct hf_claim_said){.say = HF_SAYS_YES};
    }
    switch (outcome) {
    case HF_CLAIM_STALE:
        return refused(HF_STAT_STALE_FH);
    case HF_CLAIM_READ_ONLY:
        return refused(HF_STAT_ROFS);
    default:
        return refused(HF_STAT_DENIED_NOLOCKS);
    }
}

static struct hf_claim_said said(struct hf_core *core, struct hf_claim_file *cf,
                                 const struct hf_claim_ask *ask)
{
    switch (ask->outcome) {
    case HF_CLAIM_DONE:
        return (struct hf_claim_said){.say = HF_SAYS_YES};
    case HF_CLAIM_HELD:
        return (struct hf_claim_said){.say = HF_SAYS_HELD, .holder = ask->holder};
    case HF_CLAIM_LATER:
        return (struct hf_claim_said){.say = HF_SAYS_LATER, .stat = HF_STAT_DENIED_GRACE_PERIOD};
    default:
        return not_mirrored(core, cf, ask, ask->outcome);
    }
}

static void begin_round(struct hf_core *core, struct hf_claim_file *cf)
{
    if (cf->round == 0)
        cf->round = hf_core_new_id(core);
    hf_claim_file_due(core, cf);
}

static struct hf_claim_ask ask_of(const struct hf_want *want, enum hf_claim_kind kind)
{
    return (struct hf_claim_ask){want->first, want->last, kind,
                                 want->exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED};
}

/* Adds an ask to the next round. A full round leaves further asks to the round after it. Returns 0
 * or HF_ENOMEM. */
static int add_next(struct hf_core *core, struct hf_claim_file *cf, const struct hf_claim_ask *ask)
{
    if (find_ask(&cf->next, ask))
        return 0;
    if (cf->next.n == NEXT_MAX) {
        cf->crowded = true;
        return 0;
    }
    return hf_asks_add(core, &cf->next, ask);
}

/* Finds the kernel's answer to the request. An answer that is older than the request does not
 * count, because a holder outside NLM may have come or gone since. */
static const struct hf_claim_ask *find_answer(const struct hf_core *core,
                                              const struct hf_claim_file *cf,
                                              const struct hf_claim_ask *like)
{
    return core->claims->asking <= cf->base ? find_ask(&cf->answers, like) : NULL;
}

struct hf_claim_said hf_claim_want(struct hf_core *core, struct hf_file *file,
                                   const struct hf_want *want, enum hf_claim_kind kind)
{
    struct hf_claim_ask ask = ask_of(want, kind);
    const struct hf_claim_ask *answer;
    struct hf_claim_file *cf;

    if (hf_claim_covers(core, file, want->first, want->last, want->exclusive) ||
        (kind == HF_CLAIM_RAISE && hf_claim_keeps(core, file, want)))
        return (struct hf_claim_said){.say = HF_SAYS_YES};
    if (!hf_claim_is_ready(core, file))
        return refused(HF_STAT_DENIED_GRACE_PERIOD);
    cf = hf_claim_file_get(core, file);
    if (!cf)
        return no_memory(core);
    answer = find_answer(core, cf, &ask);
    if (answer)
        return said(core, cf, answer);
    if (kind == HF_CLAIM_RAISE && cf->held.n >= core->config.claim_ranges)
        return not_mirrored(core, cf, &ask, HF_CLAIM_UNMIRRORED);
    if (add_next(core, cf, &ask) < 0) {
        /* If the request does not need the file's claims, the flush deletes them. */
        hf_claim_file_due(core, cf);
        return no_memory(core);
    }
    begin_round(core, cf);
    return (struct hf_claim_said){.say = HF_SAYS_WAIT};
}

void hf_claim_foresee(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                      enum hf_claim_kind kind)
{
    struct hf_claim_file *cf = hf_claim_file_find(core, file);
    struct hf_claim_ask ask = ask_of(want, kind);

    if (!cf || !hf_claim_is_ready(core, file) || cf->held.n >= core->config.claim_ranges ||
        hf_table_conflict(core, file, want) ||
        hf_claim_covers(core, file, want->first, want->last, want->exclusive))
        return;
    /* Without memory, the request asks for the range when it is made again. */
    (void)add_next(core, cf, &ask);
    hf_claim_file_due(core, cf);
}

uint64_t hf_claim_round_of(const struct hf_core *core, const struct hf_file *file)
{
    const struct hf_claim_file *cf = hf_claim_file_find(core, file);

    /* Requests that waited for the round which has just ended are made again first. */
    if (cf && hf_list_linked(&cf->decided))
        return cf->told;
    return cf && cf->parked ? cf->round : 0;
}

uint64_t hf_claim_park(struct hf_core *core, const struct hf_file *file)
{
    struct hf_claim_file *cf = hf_claim_file_find(core, file);

    if (hf_list_linked(&cf->decided))
        return cf->told;
    cf->parked = true;
    return cf->round;
}

/* ---- bytes to release, and bytes that the kernel lacks ---- */

struct comparison {
    uint32_t n_missing;  /* how many raises the comparison has added to the round */
    uint64_t before_gap; /* the last byte before a gap, in which no byte is held or wanted */
    uint64_t gap_end;    /* the last byte of the gap that begins after before_gap */
};

/* Returns the last ask of the round if `next` can extend it: the ask ends where `next` begins, or
 * both release and no byte between them is held or wanted. Otherwise NULL. */
static struct hf_claim_ask *last_release(const struct hf_claim_file *cf, const struct comparison *c,
                                         const struct hf_claim_ask *next)
{
    struct hf_claim_ask *last = cf->asks.n > 0 ? &cf->asks.at[cf->asks.n - 1] : NULL;

    if (!last || last->kind != HF_CLAIM_SET || last->mode != next->mode)
        return NULL;
    if (last->last + 1 == next->first)
        return last;
    return next->mode == HF_CLAIM_NONE && c->before_gap == last->last &&
                   c->gap_end + 1 == next->first && hf_list_empty(&cf->waits)
               ? last
               : NULL;
}

/* Makes the kernel hold less: from now on the bytes do not count as held, although the kernel may
 * still hold them. On HF_ENOMEM nothing has changed. */
static int lower(struct hf_core *core, struct hf_claim_file *cf, const struct comparison *c,
                 const struct hf_claim_ask *ask)
{
    struct hf_claim_ask *last = last_release(cf, c, ask);

    if (hf_sum_n_lowered(&cf->held, ask->first, ask->last, ask->mode) > core->config.claim_ranges &&
        hf_claim_file_has_locks(cf)) {
        hf_claim_file_coarse(core, cf, ask->first, ask->last);
        return 0;
    }
    if (hf_sum_reserve(&cf->held, core->alloc, 1) < 0 || (!last && reserve(core, &cf->asks, 1) < 0))
        return HF_ENOMEM;
    (void)hf_claim_file_set(core, cf, ask->first, ask->last, ask->mode);
    if (last)
        last->last = ask->last;
    else
        cf->asks.at[cf->asks.n++] = *ask;
    return 0;
}

/* Asks the kernel for bytes of one of our locks that it lacks. */
static int raise(struct hf_core *core, struct hf_claim_file *cf, struct comparison *c,
                 const struct hf_claim_ask *ask)
{
    if (cf->held.n + c->n_missing >= core->config.claim_ranges) {
        core->counters.claims_refused[HF_CLAIM_UNMIRRORED]++;
        return hf_claim_file_unmirrored(core, cf, ask->first, ask->last, ask->mode);
    }
    c->n_missing++;
    return hf_asks_add(core, &cf->asks, ask);
}

/*
 * Compares the dirty bytes with what the kernel ought to hold, and puts the differences into the
 * round. On HF_ENOMEM the bytes not yet compared stay dirty.
 */
static int compare(struct hf_core *core, struct hf_claim_file *cf)
{
    struct comparison c = {.before_gap = UINT64_MAX};
    uint64_t byte = cf->dirty.first;
    uint64_t last = cf->dirty.last;

    for (;;) {
        uint64_t end, held_end, refused_end;
        enum hf_claim_mode wanted = hf_claim_wanted(cf, byte, last, &end);
        enum hf_claim_mode held = hf_sum_at(&cf->held, byte, &held_end);
        enum hf_claim_mode refused = hf_sum_at(&cf->unmirrored, byte, &refused_end);
        struct hf_claim_ask ask = {.kind = held < wanted ? HF_CLAIM_RAISE : HF_CLAIM_SET,
                                   .first = byte,
                                   .mode = wanted,
                                   .corrects = true};
        int rv = 0;

        ask.last = held_end < end ? held_end : end;
        if (refused_end < ask.last)
            ask.last = refused_end;
        cf->dirty.first = byte;
        core->table->work++;
        if (refused > wanted) /* the kernel refused a stronger mode, and may accept this one */
            rv = hf_claim_file_unmirrored(core, cf, byte, ask.last, HF_CLAIM_NONE);
        if (rv == 0 && held > wanted && !core->claims->unknown)
            rv = lower(core, cf, &c, &ask);
        else if (rv == 0 && held < wanted && (refused == HF_CLAIM_NONE || refused > wanted))
            rv = raise(core, cf, &c, &ask);
        if (rv < 0)
            return rv;
        if (held == HF_CLAIM_NONE && wanted == HF_CLAIM_NONE) {
            if (c.gap_end + 1 != byte || c.before_gap == UINT64_MAX)
                c.before_gap = byte - 1;
            c.gap_end = ask.last;
        }
        if (ask.last == last) {
            cf->dirty.any = false;
            return 0;
        }
        byte = ask.last + 1;
    }
}

void hf_claim_file_lower_again(struct hf_core *core, struct hf_claim_file *cf)
{
    for (uint32_t i = 0; i < cf->asks.n && hf_list_linked(&cf->in_flight); i++) {
        const struct hf_claim_ask *ask = &cf->asks.at[i];
        if (ask->kind == HF_CLAIM_SET && !ask->answered)
            (void)hf_claim_file_set(core, cf, ask->first, ask->last, ask->mode);
    }
}

/* ---- handing rounds to the keeper ---- */

/* True if a waiter of the file is about to be served and may get the released bytes: these then
 * pass to the waiter without a change in the kernel. */
static bool is_being_served(const struct hf_core *core, const struct hf_claim_file *cf)
{
    return !cf->correcting && core->claims->serving && hf_list_linked(&cf->file->queue->woken);
}

static bool releases(const struct hf_claim_file *cf)
{
    for (uint32_t i = 0; i < cf->asks.n; i++) {
        if (cf->asks.at[i].kind == HF_CLAIM_SET)
            return true;
    }
    return false;
}

static void hand_out(struct hf_core *core, struct hf_claim_file *cf, hf_claim_sink sink, void *ctx)
{
    begin_round(core, cf);
    hf_list_add_tail(&core->claims->in_flight, &cf->in_flight);
    cf->base = core->claims->next_ask;
    cf->n_open = cf->asks.n;
    core->claims->next_ask += cf->asks.n;
    for (uint32_t i = 0; i < cf->asks.n; i++) {
        const struct hf_claim_ask *ask = &cf->asks.at[i];
        struct hf_claim claim = {cf->base + i, ask->kind, ask->mode,
                                 ask->first,   ask->last, hf_file_fh(cf->file)};

        sink(ctx, &claim);
    }
}

/* Appends what requests and waiters ask for to the round, behind its releases. Returns 0 or
 * HF_ENOMEM. */
static int take_next(struct hf_core *core, struct hf_claim_file *cf)
{
    if (cf->next.n == 0)
        return 0;
    if (reserve(core, &cf->asks, cf->next.n) < 0)
        return HF_ENOMEM;
    for (uint32_t i = 0; i < cf->next.n; i++)
        cf->asks.at[cf->asks.n++] = cf->next.at[i];
    cf->next.n = 0;
    return 0;
}

static bool is_missing(const struct hf_claim_file *cf)
{
    for (uint32_t i = 0; i < cf->asks.n; i++) {
        if (cf->asks.at[i].corrects && cf->asks.at[i].kind == HF_CLAIM_RAISE)
            return true;
    }
    return cf->dirty.any || cf->later.any;
}

static void flush_file(struct hf_core *core, struct hf_claim_file *cf, hf_claim_sink sink,
                       void *ctx)
{
    bool waits, failed;

    cf->answers.n = 0;
    if (hf_list_linked(&cf->in_flight))
        return; /* when the file's round ends, the file becomes due again */
    if (cf->held.n <= core->config.claim_ranges / 2 || !hf_claim_file_has_locks(cf))
        hf_claim_file_refine(core, cf);
    hf_list_remove(&cf->due);
    waits = cf->dirty.any && is_being_served(core, cf);
    /* Without memory, the next turn compares the file's bytes. */
    failed = cf->dirty.any && !waits && compare(core, cf) < 0;
    if (waits || (!failed && !releases(cf)))
        hf_claim_file_released(cf);
    cf->has_released = cf->has_released && cf->dirty.any;
    failed |= take_next(core, cf) < 0;
    if (waits || failed)
        hf_claim_file_due(core, cf);
    if (cf->correcting && !is_missing(cf))
        hf_claim_file_correcting(core, cf, false);
    if (cf->asks.n > 0)
        hand_out(core, cf, sink, ctx);
    else
        hf_claim_file_settle(core, cf);
}

void hf_claims_flush(struct hf_core *core, hf_claim_sink sink, void *ctx)
{
    struct hf_claim_file *cf;
    struct hf_list due;

    if (!core->claims->up)
        return;
    HF_ASSERT(hf_list_empty(&core->claims->decided));
    hf_list_init(&due);
    hf_list_splice_tail(&due, &core->claims->due);
    while ((cf = hf_list_first(&due, struct hf_claim_file, due)) != NULL) {
        hf_list_remove(&cf->due);
        flush_file(core, cf, sink, ctx);
    }
    hf_claim_waits_flush(core, sink, ctx);
}

void hf_claim_missing(struct hf_core *core, const struct hf_lock *lock)
{
    hf_claim_file_dirty(core, hf_claim_file_find(core, hf_lock_file(lock)), lock->node.first,
                        lock->node.last);
}

/* ---- results ---- */

/* Has the requests made again that waited for the round. */
static void decide(struct hf_core *core, struct hf_claim_file *cf)
{
    if (cf->parked) {
        cf->told = cf->round;
        hf_list_remove(&cf->decided);
        hf_list_add_tail(&core->claims->decided, &cf->decided);
    }
    cf->parked = false;
    cf->round = 0;
}

/* Notes bytes that the kernel lacks and that the keeper cannot lock now, for the next retry. */
static void try_later(struct hf_core *core, struct hf_now now, struct hf_claim_file *cf,
                      const struct hf_claim_ask *ask)
{
    hf_stretch_add(&cf->later, ask->first, ask->last);
    if (!hf_list_linked(&cf->later_link))
        hf_list_add_tail(&core->claims->later, &cf->later_link);
    hf_retry_later(core, now);
}

static void end_ask(struct hf_core *core, struct hf_now now, struct hf_claim_file *cf,
                    const struct hf_claim_ask *ask)
{
    if (ask->kind != HF_CLAIM_RAISE)
        return;
    if (ask->corrects && ask->outcome == HF_CLAIM_LATER) {
        try_later(core, now, cf, ask);
    } else if (ask->corrects && ask->outcome > HF_CLAIM_LATER) {
        core->counters.claims_refused[ask->outcome]++;
        if (hf_claim_file_unmirrored(core, cf, ask->first, ask->last, ask->mode) < 0)
            try_later(core, now, cf, ask);
        else if (ask->outcome == HF_CLAIM_FULL)
            hf_claim_file_full(core, cf);
    } else if (ask->outcome == HF_CLAIM_DONE) {
        /* The flush releases a claim on these bytes again if no request uses it. */
        hf_claim_file_dirty(core, cf, ask->first, ask->last);
    }
    hf_file_wake(core, cf->file, ask->first, ask->last);
}

static void end_round(struct hf_core *core, struct hf_now now, struct hf_claim_file *cf)
{
    struct hf_asks done = cf->asks;

    hf_list_remove(&cf->in_flight);
    cf->asks = cf->answers;
    cf->asks.n = 0;
    cf->answers = done;
    hf_claim_file_released(cf);
    if (cf->has_released)
        hf_claim_file_unreleased(core, cf, cf->dirty_seq);
    hf_claim_file_due(core, cf);
    for (uint32_t i = 0; i < done.n; i++)
        end_ask(core, now, cf, &done.at[i]);
    if (cf->crowded)
        hf_file_wake(core, cf->file, 0, UINT64_MAX);
    cf->crowded = false;
    decide(core, cf);
}

/* Finds the file that made the ask with this id. Results come in the order of the asks, so as a
 * rule it is the first file in flight. */
static struct hf_claim_file *find_in_flight(const struct hf_core *core, uint64_t id)
{
    hf_list_foreach (node, &core->claims->in_flight) {
        struct hf_claim_file *cf = hf_list_entry(node, struct hf_claim_file, in_flight);
        if (id >= cf->base && id - cf->base < cf->asks.n)
            return cf;
    }
    return NULL;
}

/* Applies a result to what we know the kernel holds. Results must be applied in their order: the
 * kernel may have granted a wait before or after a release that overlaps it. */
static int apply(struct hf_core *core, struct hf_claim_file *cf, const struct hf_claim_ask *ask)
{
    if (ask->kind == HF_CLAIM_SET)
        return ask->outcome == HF_CLAIM_DONE
                   ? hf_claim_file_set(core, cf, ask->first, ask->last, ask->mode)
                   : HF_EINVAL;
    if (ask->kind != HF_CLAIM_RAISE || ask->outcome != HF_CLAIM_DONE)
        return 0;
    hf_file_wake(core, cf->file, ask->first, ask->last);
    return hf_claim_file_raise(core, cf, ask->first, ask->last, ask->mode);
}

int hf_claims_result(struct hf_core *core, struct hf_now now, const struct hf_claim_result *result,
                     struct hf_claim_file **ended)
{
    struct hf_claim_file *cf;
    struct hf_claim_ask *ask;
    int rv;

    *ended = NULL;
    if (result->outcome >= HF_CLAIM_OUTCOMES)
        return HF_EINVAL;
    if (result->id & HF_CLAIM_WAIT_BIT)
        return hf_claim_wait_result(core, now, result);
    cf = find_in_flight(core, result->id);
    if (!cf || cf->asks.at[result->id - cf->base].answered)
        return HF_EINVAL;
    ask = &cf->asks.at[result->id - cf->base];
    ask->answered = true;
    ask->outcome = result->outcome;
    ask->holder = result->holder;
    rv = apply(core, cf, ask);
    if (rv < 0)
        return rv;
    if (--cf->n_open > 0)
        return 0;
    end_round(core, now, cf);
    *ended = cf;
    return 0;
}

bool hf_claims_next_decision(struct hf_core *core, uint64_t *round)
{
    struct hf_claim_file *cf = hf_list_first(&core->claims->decided, struct hf_claim_file, decided);

    if (!cf)
        return false;
    *round = cf->told;
    hf_list_remove(&cf->decided);
    return true;
}

/* ---- keepers connect and disconnect ---- */

static bool lose_file(struct hf_map_node *node, void *ctx)
{
    struct hf_claim_file *cf = hf_container_of(node, struct hf_claim_file, node);
    struct hf_core *core = ctx;

    core->claims->n_ranges -= cf->held.n;
    core->claims->n_coarse -= cf->coarse.any;
    cf->held.n = 0;
    cf->next.n = cf->asks.n = cf->answers.n = 0;
    cf->n_open = 0;
    cf->has_released = cf->crowded = false;
    cf->dirty.any = cf->later.any = cf->coarse.any = false;
    (void)hf_claim_file_unmirrored(core, cf, 0, UINT64_MAX, HF_CLAIM_NONE);
    hf_claim_file_correcting(core, cf, false);
    hf_claim_file_released(cf);
    hf_list_remove(&cf->in_flight);
    hf_list_remove(&cf->due);
    hf_list_remove(&cf->later_link);
    hf_list_remove(&cf->full);
    hf_claim_waits_lost(core, cf);
    decide(core, cf);
    hf_claim_file_settle(core, cf);
    return true;
}

void hf_claims_lost(struct hf_core *core)
{
    core->claims->up = false;
    hf_map_each(&core->claims->files, lose_file, core);
}

int hf_claims_listed(struct hf_core *core, struct hf_bytes fh, uint64_t first, uint64_t last,
                     bool exclusive)
{
    struct hf_file *file;
    struct hf_claim_file *cf;
    int rv = HF_ENOMEM;

    HF_ASSERT(!core->claims->up);
    if (core->claims->n_ranges > (uint64_t)core->config.limits.locks + core->config.limits.beyond)
        return HF_ELIMIT; /* the keeper lists more ranges than we can ever have asked for */
    file = hf_file_get(core, fh);
    cf = file ? hf_claim_file_get(core, file) : NULL;
    if (cf)
        rv = hf_claim_file_set(core, cf, first, last,
                               exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED);
    if (cf && rv < 0)
        hf_claim_file_settle(core, cf);
    if (file)
        hf_file_unref(core, file);
    return rv;
}

static bool look_at(struct hf_map_node *node, void *ctx)
{
    hf_claim_file_dirty(ctx, hf_container_of(node, struct hf_claim_file, node), 0, UINT64_MAX);
    return true;
}

static bool begin_file(struct hf_map_node *node, void *ctx)
{
    hf_claim_file_correcting(ctx, hf_container_of(node, struct hf_claim_file, node), true);
    return look_at(node, ctx);
}

void hf_claims_begin(struct hf_core *core)
{
    HF_ASSERT(!core->claims->up);
    core->claims->up = true;
    hf_map_each(&core->claims->files, begin_file, core);
}

void hf_claims_set_unknown(struct hf_core *core, bool unknown)
{
    if (core->claims->unknown && !unknown && core->claims->up)
        hf_map_each(&core->claims->files, look_at, core);
    core->claims->unknown = unknown;
}

void hf_claims_retry(struct hf_core *core)
{
    struct hf_claim_file *cf;

    while ((cf = hf_list_first(&core->claims->later, struct hf_claim_file, later_link)) != NULL) {
        hf_list_remove(&cf->later_link);
        cf->later.any = false;
        hf_claim_file_dirty(core, cf, cf->later.first, cf->later.last);
    }
    hf_list_splice_tail(&core->claims->waits, &core->claims->waits_later);
}
