/* Rounds: what one file wants of the kernel in a turn, handed out, and its results. */
#include "core/claims/private.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/table/table.h"

enum { ROOM_FIRST = 4 };

int hf_asks_add(struct hf_core *core, struct hf_asks *asks, const struct hf_claim_ask *ask)
{
    if (asks->n == asks->room) {
        uint32_t room = asks->room ? asks->room * 2 : ROOM_FIRST;
        void *at = hf_realloc(core->alloc, asks->at, room * sizeof(asks->at[0]));

        if (!at)
            return HF_ENOMEM;
        asks->at = at;
        asks->room = room;
    }
    asks->at[asks->n++] = *ask;
    return 0;
}

/* ---- what a request asks ---- */

static const struct hf_claim_ask *find_ask(const struct hf_asks *asks, enum hf_claim_kind kind,
                                           const struct hf_want *want, enum hf_claim_mode mode)
{
    for (uint32_t i = 0; i < asks->n; i++) {
        const struct hf_claim_ask *ask = &asks->at[i];
        if (ask->kind == kind && ask->first == want->first && ask->last == want->last &&
            ask->mode == mode && !ask->corrects)
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

/* The file system, the handle or a limit does not let the kernel hold it. */
static struct hf_claim_said not_mirrored(struct hf_core *core, struct hf_claim_file *cf,
                                         enum hf_claim_kind kind, enum hf_claim_outcome outcome)
{
    core->counters.claims_refused[outcome]++;
    if (core->config.grant_unmirrored && outcome != HF_CLAIM_STALE) {
        if (kind == HF_CLAIM_RAISE)
            hf_claim_file_unmirrored(core, cf, true);
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
        return not_mirrored(core, cf, ask->kind, ask->outcome);
    }
}

static void begin_round(struct hf_core *core, struct hf_claim_file *cf)
{
    if (cf->round == 0)
        cf->round = hf_core_new_id(core);
    hf_claim_file_due(core, cf);
}

struct hf_claim_said hf_claim_want(struct hf_core *core, struct hf_file *file,
                                   const struct hf_want *want, enum hf_claim_kind kind)
{
    enum hf_claim_mode mode = want->exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED;
    struct hf_claim_ask ask = {want->first, want->last, kind, mode};
    const struct hf_claim_ask *answer;
    struct hf_claim_file *cf;

    if (hf_claim_covers(core, file, want->first, want->last, want->exclusive))
        return (struct hf_claim_said){.say = HF_SAYS_YES};
    if (core->claims->state != HF_CLAIMS_READY)
        return refused(HF_STAT_DENIED_GRACE_PERIOD);
    cf = hf_claim_file_get(core, file);
    if (!cf)
        return no_memory(core);
    answer = find_ask(&cf->answers, kind, want, mode);
    if (answer)
        return said(core, cf, answer);
    if (kind == HF_CLAIM_RAISE && cf->held.n >= core->config.claim_ranges)
        return not_mirrored(core, cf, kind, HF_CLAIM_UNMIRRORED);
    if (!hf_list_linked(&cf->in_flight) && !find_ask(&cf->asks, kind, want, mode) &&
        hf_asks_add(core, &cf->asks, &ask) < 0) {
        hf_claim_file_due(core, cf); /* it may not be needed */
        return no_memory(core);
    }
    begin_round(core, cf);
    return (struct hf_claim_said){.say = HF_SAYS_WAIT};
}

uint64_t hf_claim_round_of(const struct hf_core *core, const struct hf_file *file)
{
    const struct hf_claim_file *cf = hf_claim_file_find(core, file);

    if (cf && hf_list_linked(&cf->decided))
        return cf->told; /* those that waited are about to be made again, in their order */
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

/* ---- what a release leaves, and what is missing ---- */

static bool extends(const struct hf_claim_ask *ask, const struct hf_claim_ask *next)
{
    return ask->kind == HF_CLAIM_SET && next->kind == HF_CLAIM_SET && ask->mode == next->mode &&
           ask->last + 1 == next->first;
}

static int add_correction(struct hf_core *core, struct hf_asks *asks, uint32_t from,
                          const struct hf_claim_ask *ask)
{
    if (asks->n > from && extends(&asks->at[asks->n - 1], ask)) {
        asks->at[asks->n - 1].last = ask->last;
        return 0;
    }
    return hf_asks_add(core, asks, ask);
}

/* Compares the dirty bytes with what they ought to be; adds what is to be done. */
static int compare(struct hf_core *core, const struct hf_claim_file *cf, struct hf_asks *asks)
{
    uint32_t from = asks->n;
    uint64_t byte = cf->dirty_first;

    for (;;) {
        uint64_t end, held_end;
        enum hf_claim_mode wanted = hf_claim_wanted(cf, byte, cf->dirty_last, &end);
        enum hf_claim_mode held = hf_sum_at(&cf->held, byte, &held_end);
        bool raises = held < wanted;
        struct hf_claim_ask ask = {.kind = raises ? HF_CLAIM_RAISE : HF_CLAIM_SET,
                                   .first = byte,
                                   .mode = wanted,
                                   .corrects = true};

        ask.last = held_end < end ? held_end : end;
        core->table->work++;
        if (held != wanted && !(raises ? cf->unmirrored : core->claims->unknown) &&
            add_correction(core, asks, from, &ask) < 0)
            return HF_ENOMEM;
        if (ask.last == cf->dirty_last)
            return 0;
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

/* From now on the bytes do not count as held, whatever the kernel still does. */
static int lower(struct hf_core *core, struct hf_claim_file *cf)
{
    if (hf_sum_reserve(&cf->held, core->alloc, cf->asks.n) < 0)
        return HF_ENOMEM;
    for (uint32_t i = 0; i < cf->asks.n; i++) {
        const struct hf_claim_ask *ask = &cf->asks.at[i];
        if (ask->kind == HF_CLAIM_SET)
            (void)hf_claim_file_set(core, cf, ask->first, ask->last, ask->mode);
    }
    return 0;
}

/* Releases go before what was asked for: the round is put together anew. HF_ENOMEM: it stays as it
 * was, and the file dirty. */
static int correct(struct hf_core *core, struct hf_claim_file *cf)
{
    struct hf_asks asked = cf->asks;
    int rv;

    cf->asks = (struct hf_asks){0};
    rv = compare(core, cf, &cf->asks);
    for (uint32_t i = 0; i < asked.n && rv == 0; i++)
        rv = hf_asks_add(core, &cf->asks, &asked.at[i]);
    if (rv == 0)
        rv = lower(core, cf);
    if (rv < 0) {
        hf_free(core->alloc, cf->asks.at);
        cf->asks = asked;
        return rv;
    }
    hf_free(core->alloc, asked.at);
    cf->dirty = false;
    return 0;
}

/* ---- handing out ---- */

/* A waiter is about to be served, and may get what was released: that passes without the kernel. */
static bool is_being_served(const struct hf_core *core, const struct hf_claim_file *cf)
{
    return core->claims->state == HF_CLAIMS_READY && hf_list_linked(&cf->file->queue->woken);
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
    hf_list_remove(&cf->due);
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

static void flush_file(struct hf_core *core, struct hf_now now, struct hf_claim_file *cf,
                       hf_claim_sink sink, void *ctx)
{
    bool waits = cf->dirty && is_being_served(core, cf);
    bool failed;

    cf->answers.n = 0;
    if (hf_list_linked(&cf->in_flight))
        return; /* its results make it due again */
    if (cf->later) {
        hf_list_add_tail(&core->claims->later, &cf->due);
        hf_retry_later(core, now);
        return;
    }
    failed = cf->dirty && !waits && correct(core, cf) < 0; /* no memory: in the next turn */
    if (waits || failed)
        hf_claim_file_due(core, cf);
    if (waits || (!failed && !releases(cf)))
        hf_claim_file_released(cf);
    cf->has_released = cf->has_released && cf->dirty;
    if (cf->asks.n > 0)
        hand_out(core, cf, sink, ctx);
    else
        hf_claim_file_settle(core, cf);
}

void hf_claims_flush(struct hf_core *core, struct hf_now now, hf_claim_sink sink, void *ctx)
{
    struct hf_claim_file *cf;
    struct hf_list due;

    if (core->claims->state == HF_CLAIMS_DOWN)
        return;
    HF_ASSERT(hf_list_empty(&core->claims->decided));
    hf_list_init(&due);
    hf_list_splice_tail(&due, &core->claims->due);
    while ((cf = hf_list_first(&due, struct hf_claim_file, due)) != NULL) {
        hf_list_remove(&cf->due);
        flush_file(core, now, cf, sink, ctx);
    }
    hf_claim_waits_flush(core, sink, ctx);
}

void hf_claim_missing(struct hf_core *core, const struct hf_lock *lock)
{
    hf_claim_file_dirty(core, hf_claim_file_find(core, hf_lock_file(lock)), lock->node.first,
                        lock->node.last);
}

/* ---- results ---- */

/* The requests that waited for the round are to be made again. */
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

static void end_ask(struct hf_core *core, struct hf_claim_file *cf, const struct hf_claim_ask *ask)
{
    if (ask->kind != HF_CLAIM_RAISE)
        return;
    if (ask->corrects && ask->outcome == HF_CLAIM_LATER) {
        hf_claim_file_dirty(core, cf, ask->first, ask->last);
        cf->later = true;
    } else if (ask->corrects && ask->outcome > HF_CLAIM_LATER) {
        core->counters.claims_refused[ask->outcome]++;
        hf_claim_file_unmirrored(core, cf, true);
    } else if (ask->outcome == HF_CLAIM_DONE) {
        hf_claim_file_dirty(core, cf, ask->first, ask->last); /* if no request takes it */
    }
    hf_file_wake(core, cf->file, ask->first, ask->last);
}

static void end_round(struct hf_core *core, struct hf_claim_file *cf)
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
        end_ask(core, cf, &done.at[i]);
    decide(core, cf);
}

/* Results come in the order of the asks, so this is the first file, as a rule. */
static struct hf_claim_file *find_in_flight(const struct hf_core *core, uint64_t id)
{
    hf_list_foreach (node, &core->claims->in_flight) {
        struct hf_claim_file *cf = hf_list_entry(node, struct hf_claim_file, in_flight);
        if (id >= cf->base && id - cf->base < cf->asks.n)
            return cf;
    }
    return NULL;
}

/* What the kernel holds is what the results say, in their order: a wait may have been made before
 * or after a release that overlaps it. */
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
    end_round(core, cf);
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

/* ---- keepers come and go ---- */

static bool lose_file(struct hf_map_node *node, void *ctx)
{
    struct hf_claim_file *cf = hf_container_of(node, struct hf_claim_file, node);
    struct hf_core *core = ctx;

    core->claims->n_ranges -= cf->held.n;
    cf->held.n = 0;
    cf->asks.n = cf->answers.n = 0;
    cf->n_open = 0;
    cf->dirty = cf->has_released = cf->later = false;
    hf_claim_file_unmirrored(core, cf, false);
    hf_claim_file_released(cf);
    hf_list_remove(&cf->in_flight);
    hf_list_remove(&cf->due);
    hf_claim_waits_lost(core, cf);
    decide(core, cf);
    hf_claim_file_settle(core, cf);
    return true;
}

void hf_claims_lost(struct hf_core *core)
{
    core->claims->state = HF_CLAIMS_DOWN;
    hf_map_each(&core->claims->files, lose_file, core);
}

int hf_claims_listed(struct hf_core *core, struct hf_bytes fh, uint64_t first, uint64_t last,
                     bool exclusive)
{
    struct hf_file *file = hf_file_get(core, fh);
    struct hf_claim_file *cf = file ? hf_claim_file_get(core, file) : NULL;
    int rv = HF_ENOMEM;

    HF_ASSERT(core->claims->state == HF_CLAIMS_DOWN);
    if (cf)
        rv = hf_claim_file_set(core, cf, first, last,
                               exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED);
    if (cf && rv < 0)
        hf_claim_file_settle(core, cf);
    if (file)
        hf_file_unref(core, file);
    return rv;
}

static bool begin_file(struct hf_map_node *node, void *ctx)
{
    hf_claim_file_dirty(ctx, hf_container_of(node, struct hf_claim_file, node), 0, UINT64_MAX);
    return true;
}

void hf_claims_begin(struct hf_core *core, bool unknown)
{
    HF_ASSERT(core->claims->state == HF_CLAIMS_DOWN);
    core->claims->state = HF_CLAIMS_CORRECTING;
    core->claims->unknown = unknown;
    hf_map_each(&core->claims->files, begin_file, core);
}

void hf_claims_all_known(struct hf_core *core)
{
    if (core->claims->unknown && core->claims->state != HF_CLAIMS_DOWN)
        hf_map_each(&core->claims->files, begin_file, core);
    core->claims->unknown = false;
}

bool hf_claims_corrected(struct hf_core *core)
{
    struct hf_claims *claims = core->claims;

    if (claims->state != HF_CLAIMS_CORRECTING || !hf_list_empty(&claims->due) ||
        !hf_list_empty(&claims->in_flight) || !hf_list_empty(&claims->later))
        return false;
    claims->state = HF_CLAIMS_READY;
    return true;
}

void hf_claims_retry(struct hf_core *core)
{
    hf_list_foreach (node, &core->claims->later)
        hf_list_entry(node, struct hf_claim_file, due)->later = false;
    hf_list_splice_tail(&core->claims->due, &core->claims->later);
    hf_list_splice_tail(&core->claims->waits, &core->claims->waits_later);
}
