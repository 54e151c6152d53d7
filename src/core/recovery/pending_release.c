/*
 * Pending releases: the locks of a client found dead. Their release must not be lost because memory
 * ran out or a commit failed, so the client stays in the list of pending releases, and the release
 * is retried, until it is durable.
 */
#include "core/clients/clients.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"

int64_t hf_pending_release_locks(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                 const struct hf_pending_release *release, uint64_t *seq,
                                 bool *left)
{
    struct hf_lock *lock = hf_client_next_lock(core, client, NULL);
    struct hf_lock *next;
    int64_t n = 0;

    for (; lock; lock = next) {
        next = hf_client_next_lock(core, client, lock);
        if (lock->id >= (lock->late ? release->late_id : release->before_id) ||
            (release->unclaimed_only && !lock->unclaimed))
            continue;
        if (hf_lock_release(core, now, lock, seq) < 0)
            *left = true;
        else
            n++;
    }
    return n;
}

/* Records the new state number, so that a repeated notice changes nothing. */
static int set_state(struct hf_core *core, struct hf_now now, struct hf_client *client,
                     int32_t state, uint64_t *seq)
{
    struct hf_client_mutable to = client->m;
    struct hf_txn txn;

    if (state == 0)
        return 0;
    to.state = state;
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_update(&txn, client, &to) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    *seq = hf_seq_later(*seq, hf_txn_commit(&txn));
    return 0;
}

/* Releases what it can; the pending release ends when that is durable. */
static int64_t enforce(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    struct hf_pending_release *release = &client->pending_release;
    bool left = false;
    int64_t n;

    client->refs++;
    release->seq = 0;
    n = hf_pending_release_locks(core, now, client, release, &release->seq, &left);
    core->counters.locks_cleaned += (uint64_t)n;
    if (set_state(core, now, client, release->state, &release->seq) < 0)
        left = true;
    if (left) {
        release->seq = UINT64_MAX;
        hf_retry_later(core, now);
    }
    if (hf_durable_has(core, release->seq))
        hf_list_remove(&release->link);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
    return n;
}

int64_t hf_pending_release_add(struct hf_core *core, struct hf_now now, struct hf_client *client,
                               struct hf_pending_release release)
{
    hf_list_remove(&client->pending_release.link);
    if (release.before_id == 0)
        release.before_id = core->next_id;
    release.late_id = core->next_id;
    client->pending_release = release;
    hf_list_add_tail(&core->recovery->pending_releases, &client->pending_release.link);
    core->counters.crashes_detected++;
    core->counters.crash_cleanups++;
    return enforce(core, now, client);
}

void hf_pending_release_retry_all(struct hf_core *core, struct hf_now now)
{
    hf_list_foreach_safe (node, &core->recovery->pending_releases) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, pending_release.link);
        enforce(core, now, client);
    }
}

void hf_pending_release_committed(struct hf_core *core)
{
    hf_list_foreach_safe (node, &core->recovery->pending_releases) {
        const struct hf_client *client =
            hf_list_entry(node, struct hf_client, pending_release.link);
        if (hf_durable_has(core, client->pending_release.seq))
            hf_list_remove(node);
    }
}

void hf_pending_release_commit_failed(struct hf_core *core)
{
    hf_list_foreach (node, &core->recovery->pending_releases) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, pending_release.link);
        client->pending_release.seq = UINT64_MAX;
    }
}
