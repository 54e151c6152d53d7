#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "world.h"

static struct hf_core_config config_of(const struct world *w)
{
    struct hf_core_config config = hf_core_config_default();

    config.server_name = hf_bytes_str("server");
    config.hash_key = (struct hf_hash_key){1, 2};
    config.verify_notices = false;
    config.durable_locks = w->durable;
    config.grace_ms = 1000000000;
    config.coherent = true;
    config.grant_unmirrored = w->grant_unmirrored;
    config.claim_ranges = w->ranges;
    return config;
}

void daemon_start(struct world *w)
{
    struct hf_core_config config = config_of(w);

    w->heap.after = -1;
    w->core = hf_core_new(&config, &w->alloc);
    HF_ASSERT(w->core);
    for (unsigned i = 0; i < w->records.count; i++) {
        const struct stored_record *record = w->records.at[i];
        int rv = hf_core_load(w->core, record->kind, record_bytes(record));

        if (rv < 0)
            violate(w, "records load", "error %d", rv);
    }
    HF_ASSERT(hf_core_start(w->core, w->now) == 0);
    w->started = false;
    TRACE(w, "the daemon starts");
    daemon_turn(w);
}

void daemon_crash(struct world *w)
{
    TRACE(w, "the daemon dies");
    if (w->committing && sim_rng_one_in(&w->rng, 2))
        /* The store had written the batch before it failed. */
        records_apply(&w->records, w->committing);
    w->committing = NULL;
    w->heap.after = -1;
    hf_core_del(w->core);
    w->core = NULL;
    w->crashes_made++;
    if (w->heap.live != 0)
        violate(w, "no memory is leaked", "%ld blocks", w->heap.live);
    if (w->connected)
        keeper_disconnect(w);
    nlm_daemon_gone(w);
}

void daemon_disconnected(struct world *w)
{
    if (w->connected)
        keeper_disconnect(w);
    hf_core_claims_lost(w->core, w->now);
}

/* Connects: the keeper lists what it holds (LIST), and the core corrects the difference. */
void daemon_connect(struct world *w)
{
    int rv = 0;

    w->connected = true;
    TRACE(w, "the daemon connects to the keeper");
    for (unsigned f = 0; f < FILES; f++) {
        for (unsigned c = 0; c < CELLS && rv == 0; c++) {
            struct range cell = {(uint8_t)f, (uint8_t)c, (uint8_t)c};
            if (w->kernel[f][c][0] != HF_CLAIM_NONE)
                rv = hf_core_claims_listed(w->core, handle_of(f), first_byte(cell), last_byte(cell),
                                           w->kernel[f][c][0] == HF_CLAIM_EXCLUSIVE);
        }
    }
    if (rv < 0)
        daemon_disconnected(w);
    else
        hf_core_claims_begin(w->core, w->now);
}

static void send(void *ctx, const struct hf_claim *claim)
{
    struct world *w = ctx;
    int file = file_of(claim->fh);
    struct op op = {*claim, range_of((unsigned)file, claim->first, claim->last)};

    if (w->n_ops == PIPE)
        violate(w, "the simulator", "too many operations");
    else
        w->ops[w->n_ops++] = op;
}

static void make_calls(struct world *w)
{
    struct hf_outcall_attempt call;

    while (hf_core_next_outcall(w->core, w->now, &call)) {
        bool accepted = call.kind != HF_OUTCALL_GRANTED || nlm_granted(w, &call);
        hf_core_outcall_done(w->core, w->now, call.id,
                             accepted ? HF_OUTCALL_ACCEPTED : HF_OUTCALL_DENIED, 0);
    }
}

static void read_events(struct world *w)
{
    struct hf_event event;

    while (hf_core_next_event(w->core, &event)) {
        if (event.kind == HF_EVENT_CLIENT_OUTSIDE)
            nlm_lost(w, hf_bytes(event.name, event.name_len));
    }
}

/* What the daemon does at the end of a turn of its loop. */
void daemon_turn(struct world *w)
{
    if (!w->core)
        return;
    nlm_settle(w);
    if (!w->committing)
        w->committing = hf_core_take_batch(w->core);
    make_calls(w);
    nlm_settle(w);
    hf_core_claims_flush(w->core, w->now, send, w);
    nlm_settle(w);
    read_events(w);
}

void daemon_commit_done(struct world *w, bool fails)
{
    const struct hf_batch *batch = w->committing;

    if (!fails)
        records_apply(&w->records, batch);
    TRACE(w, "batch %llu %s", (unsigned long long)batch->seq, fails ? "fails" : "is durable");
    w->committing = NULL;
    hf_core_batch_done(w->core, w->now, batch->seq, fails ? HF_EIO : 0);
    w->started |= !fails;
    for (unsigned p = 0; p < PROCS && fails; p++) {
        if (w->procs[p].answered && w->procs[p].answer.ticket.seq > hf_core_durable(w->core))
            w->procs[p].answer = (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    daemon_turn(w);
}

void daemon_result(struct world *w)
{
    struct hf_claim_result result = w->results[0];

    memmove(w->results, w->results + 1, --w->n_results * sizeof(w->results[0]));
    if (hf_core_claim_done(w->core, w->now, &result) < 0) {
        if (!w->heap.failed)
            violate(w, "results are understood", "id %llx", (unsigned long long)result.id);
        daemon_disconnected(w);
    }
}
