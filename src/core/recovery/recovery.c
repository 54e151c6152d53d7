/* Recovery as a whole: setting up, what follows each commit, and decisions. */
#include "core/claims/claims.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"

void hf_recovery_init(struct hf_core *core)
{
    core->recovery->start.recovers = HF_RECOVERS_FIRST;
    hf_list_init(&core->recovery->releasing);
    hf_list_init(&core->recovery->released);
    hf_list_init(&core->recovery->decisions);
    hf_batch_init(&core->recovery->obsolete, core->alloc);
}

void hf_recovery_free(struct hf_core *core)
{
    hf_batch_clear(&core->recovery->obsolete);
    hf_batch_free(&core->recovery->obsolete);
}

/* ---- one client ---- */

size_t hf_recovery_client_size(void)
{
    return sizeof(struct hf_client_recovery);
}

struct hf_client_recovery *hf_recovery_of(struct hf_client *client)
{
    struct hf_client_recovery *r = client->recovery;

    if (!r->client) {
        r->client = client;
        hf_list_init(&r->release.link);
        hf_list_init(&r->release.made.link);
        hf_outcall_init(&r->verification.outcall);
        hf_outcall_init(&r->arrival.outcall);
        hf_list_init(&r->verification.made.link);
    }
    return r;
}

void hf_recovery_abandon(struct hf_core *core, struct hf_client *client)
{
    struct hf_client_recovery *r = hf_recovery_of(client);

    hf_outcall_end(core, &r->verification.outcall);
    hf_outcall_end(core, &r->arrival.outcall);
    hf_list_remove(&r->verification.made.link);
    hf_list_remove(&r->release.made.link);
    hf_list_remove(&r->release.link);
}

/* ---- commits ---- */

void hf_recovery_committed(struct hf_core *core)
{
    hf_pending_release_committed(core);
}

void hf_recovery_commit_failed(struct hf_core *core, struct hf_now now)
{
    struct hf_recovery *recovery = core->recovery;

    hf_pending_release_commit_failed(core);
    hf_list_foreach (node, &recovery->decisions) {
        struct hf_decision *d = &hf_list_entry(node, struct hf_made_decision, link)->decision;
        d->failed |= d->seq > core->durable->seq;
    }
    if (recovery->state_seq > core->durable->seq)
        recovery->state_seq = core->durable->epoch_seq;
    /* After the failed commit, reclaimed locks may be unclaimed again. */
    recovery->grace.drained_seq = 0;
    hf_retry_later(core, now);
}

void hf_recovery_retry(struct hf_core *core)
{
    hf_pending_release_retry_all(core);
}

/* ---- decisions ---- */

void hf_decision_made(struct hf_core *core, struct hf_made_decision *made, struct hf_client *client,
                      uint64_t id, uint64_t seq)
{
    HF_ASSERT(!hf_list_linked(&made->link));
    made->client = client;
    made->decision = (struct hf_decision){id, hf_durable_answer_seq(core, seq), false};
    hf_list_add_tail(&core->recovery->decisions, &made->link);
}

bool hf_core_next_decision(struct hf_core *core, struct hf_decision *out)
{
    struct hf_made_decision *made =
        hf_list_first(&core->recovery->decisions, struct hf_made_decision, link);

    if (!made) {
        *out = (struct hf_decision){0};
        return core->config.coherent && hf_claims_next_decision(core, &out->id);
    }
    *out = made->decision;
    hf_list_remove(&made->link);
    hf_client_unref(core, made->client);
    return true;
}
