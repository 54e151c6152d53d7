/*
 * Locks that a holder outside NLM has taken. While the kernel held nothing for us (the keeper had
 * died, or the host was booting), a program of this host could lock a range that an NLM client
 * holds. When the kernel then refuses to hold the range for us, the client has lost its lock: the
 * core reports the loss (ADM-06) and releases the lock.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/event.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"

static void lose(struct hf_core *core, struct hf_now now, struct hf_lock *lock)
{
    struct hf_client *client = hf_lock_owner(lock)->client;
    struct hf_event *event;
    uint64_t seq = 0;

    client->refs++;
    if (hf_lock_release(core, now, lock, HF_END_OUTSIDE, &seq) < 0) {
        hf_claim_missing(core, lock); /* no memory: the kernel's next refusal releases the lock */
        hf_client_unref(core, client);
        return;
    }
    core->counters.locks_lost[HF_LOSS_OUTSIDE]++;
    core->counters.clients_lost[HF_LOSS_OUTSIDE]++;
    event = hf_client_event(core, HF_EVENT_CLIENT_OUTSIDE, client, client->m.state, 1, 0);
    if (event)
        hf_event_set_file(event, hf_file_fh(hf_lock_file(lock)));
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
}

static void lose_overlapping(struct hf_core *core, struct hf_now now, const struct hf_file *file,
                             const struct hf_itree *tree, const struct hf_claim_ask *ask)
{
    struct hf_itree_node *node = hf_itree_overlap(tree, ask->first, ask->last);
    struct hf_itree_node *next;

    for (; node; node = next) {
        struct hf_lock *lock = hf_container_of(node, struct hf_lock, node);

        next = hf_itree_overlap_next(node, ask->first, ask->last);
        if (!hf_claim_covers(core, file, node->first, node->last, lock->exclusive))
            lose(core, now, lock);
    }
}

void hf_locks_lost_outside(struct hf_core *core, struct hf_now now, const struct hf_claim_file *cf)
{
    for (uint32_t i = 0; i < cf->answers.n; i++) {
        const struct hf_claim_ask *ask = &cf->answers.at[i];
        if (!ask->corrects || ask->kind != HF_CLAIM_RAISE || ask->outcome != HF_CLAIM_HELD)
            continue;
        lose_overlapping(core, now, cf->file, &cf->file->exclusive, ask);
        lose_overlapping(core, now, cf->file, &cf->file->shared, ask);
    }
}
