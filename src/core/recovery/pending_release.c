/*
 * Releases all that a client has, because it has restarted, cannot be told of our own restart, says
 * that it has nothing any more (FREE_ALL), has not reclaimed in time, or because the operator says
 * so.
 *
 * A client may have a hundred thousand locks, and other clients must not wait until all of them are
 * released (SEC-05). So a release is made in slices: the first at once, each further one at a tick,
 * and one in each batch, so that no batch takes long to be undone or made final. A slice ends
 * between two owners, because the locks of one owner are limited. Most releases take one slice.
 * Where more are needed, the answer waits for a decision, which is made with the last slice.
 *
 * A lock that is to be released is held until then, and is in the way of other owners' requests.
 * But it is *being released* (hf_lock_is_releasing()). Its owner may be a process of the client's
 * new life by now, and what that process is granted must stay. So a lock being released is not
 * merged with a new one, is no reason to grant a reclaim or a repeated request, and goes as a whole
 * with the first request of its owner that would change a part of it.
 *
 * The release of a client found dead must not be lost because memory ran out or a commit failed,
 * and a release in slices is not left half done: it is retried until it is durable. If the server
 * itself crashes between two slices, nothing has been answered, and the client's new state number
 * is not recorded. The remaining locks are then unclaimed after the restart, and are released when
 * the client repeats its notice, turns out to be unreachable, or has not reclaimed them when grace
 * ends.
 */
#include "core/clients/clients.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

static struct hf_client *client_of(const struct hf_list *link)
{
    return hf_list_entry(link, struct hf_client_recovery, release.link)->client;
}

static struct hf_client *first_of(const struct hf_list *list)
{
    return hf_list_empty(list) ? NULL : client_of(list->next);
}

static struct hf_pending_release *release_of(struct hf_client *client)
{
    return &hf_recovery_of(client)->release;
}

/* Has the release look at all owners of the client again. */
static void restart(struct hf_client *client)
{
    hf_reflist_splice_tail(&client->losing.owners, &client->owners);
}

/* ---- one slice ---- */

int hf_lock_release(struct hf_core *core, struct hf_now now, struct hf_lock *lock, enum hf_end end,
                    uint64_t *seq)
{
    struct hf_txn txn;

    hf_txn_begin(&txn, core, now, &hf_lock_file(lock)->seq);
    txn.end = end;
    if (hf_table_drop(&txn, lock) < 0) {
        hf_txn_abort(&txn);
        return HF_ENOMEM;
    }
    hf_waiter_confirm_range(core, hf_lock_owner(lock), hf_lock_file(lock), lock->node.first,
                            lock->node.last, false);
    *seq = hf_seq_later(*seq, hf_txn_commit(&txn));
    return 1;
}

/* Returns why the client loses this lock; a release may have several reasons. */
static enum hf_end end_of(const struct hf_pending_release *r, const struct hf_lock *lock)
{
    if (hf_lock_owner(lock)->client->losing.unclaimed && lock->unclaimed)
        return r->crashed ? HF_END_UNREACHABLE : HF_END_UNRECLAIMED;
    return r->crashed ? HF_END_CRASHED : HF_END_RELEASED;
}

/* Releases the owner's locks that are being released. A failure on one lock does not stop the rest
 * (CRS-01). */
static void release_owner(struct hf_core *core, struct hf_now now, struct hf_client *client,
                          struct hf_owner *owner)
{
    struct hf_pending_release *r = release_of(client);
    struct hf_lock *lock = hf_owner_next_lock(core, owner, NULL);
    struct hf_lock *next;

    hf_reflist_remove(&owner->in_client);
    hf_reflist_add_tail(&client->owners, &owner->in_client);
    for (; lock; lock = next) {
        next = hf_owner_next_lock(core, owner, lock);
        if (!hf_lock_is_releasing(lock))
            continue;
        if (hf_lock_release(core, now, lock, end_of(r, lock), &r->seq) < 0) {
            r->incomplete = true;
            continue;
        }
        r->n++;
        core->counters.locks_cleaned += r->crashed;
    }
}

/* Releases shares, which the client's list has in order of their lives. Returns false when the
 * slice is full. */
static bool release_shares(struct hf_core *core, struct hf_client *client, uint64_t work_end)
{
    struct hf_pending_release *r = release_of(client);
    struct hf_share *share;

    while ((share = hf_list_first(&client->shares, struct hf_share, in_client)) != NULL &&
           share->life < client->losing.before_life) {
        if (core->table->work++ >= work_end)
            return false;
        hf_share_drop(core, share);
        r->n++;
    }
    return true;
}

/* Releases as much as fits into the slice. Returns true when nothing of this client is left to look
 * at. */
static bool release_some(struct hf_core *core, struct hf_now now, struct hf_client *client,
                         uint64_t work_end)
{
    struct hf_owner *owner;

    if (!release_shares(core, client, work_end))
        return false;
    while ((owner = hf_reflist_first(&client->losing.owners, struct hf_owner, in_client)) != NULL &&
           (client->losing.before_life > 0 || client->n_unclaimed > 0)) {
        if (core->table->work++ >= work_end)
            return false;
        release_owner(core, now, client, owner);
    }
    hf_reflist_splice_tail(&client->owners, &client->losing.owners);
    return true;
}

/* Notes the batch of this slice. If it is the gathering one, the next slice goes into the batch
 * after it. */
static void note_slice(struct hf_core *core)
{
    uint64_t seq = hf_durable_gathering(core)->seq;

    core->recovery->slice_seq = hf_durable_last_change(core) == seq ? seq : 0;
}

/* ---- the end of a release ---- */

/* Records the client's new state number, so that a repeat of its notice changes nothing. */
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

/* Returns the state number to record. A FREE_ALL or an operator names none (0). But if the record
 * tells lives apart, only the newest life has anything now, and its state is recorded. */
static int32_t state_after(const struct hf_client *client)
{
    if (client->recovery->release.state != 0)
        return client->recovery->release.state;
    return client->losing.before_life >= client->lives.now && client->recorded.n > 0
               ? client->lives.states[0]
               : 0;
}

static void forget(struct hf_core *core, struct hf_client *client)
{
    struct hf_pending_release *r = release_of(client);

    client->losing.before_life = 0;
    client->losing.unclaimed = false;
    hf_reflist_splice_tail(&client->owners, &client->losing.owners);
    r->in_progress = false;
    r->state = 0;
    hf_list_remove(&r->link);
    hf_client_unref(core, client);
}

/* Makes the decision about this release: answers that wait for it go on, and so do those that wait
 * for the verification of the crash notice that caused it. */
static void decide(struct hf_core *core, struct hf_client *client)
{
    struct hf_pending_release *r = release_of(client);

    if (r->decision_id == 0)
        return;
    client->refs++;
    hf_decision_made(core, &r->made, client, r->decision_id, r->seq);
    r->decision_id = 0;
    if (r->also)
        hf_decision_made(core, r->also, client, r->also->decision.id, r->seq);
    r->also = NULL;
}

/* Ends a release after its last slice. Returns false if memory ran out, so that all owners must be
 * looked at again. The caller has a reference to the client. */
static bool finish(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    struct hf_pending_release *r = release_of(client);

    if (set_state(core, now, client, state_after(client), &r->seq) < 0)
        r->incomplete = true;
    if (r->incomplete) {
        r->incomplete = false;
        restart(client);
        return false;
    }
    if (r->log)
        hf_client_event(core, r->event, client, client->m.state, r->n, 0);
    r->log = false;
    r->in_progress = false;
    decide(core, client);
    hf_client_idle(core, now, client);
    hf_list_remove(&r->link);
    hf_list_add_tail(&core->recovery->released, &r->link);
    if (!r->retry || hf_durable_has(core, r->seq))
        forget(core, client);
    return true;
}

static void stall(struct hf_core *core, struct hf_now now)
{
    core->recovery->release_stalled = true;
    hf_retry_later(core, now);
}

/* ---- the interface ---- */

/* Begins a release. If the client is losing something already, both become one release. */
void hf_pending_release_begin(struct hf_core *core, struct hf_client *client,
                              const struct hf_release *release)
{
    struct hf_pending_release *r = release_of(client);

    if (!hf_list_linked(&r->link)) {
        client->refs++;
        r->seq = 0;
        r->retry = r->crashed = false;
        r->n = 0;
    }
    if (release->log) {
        r->log = true;
        r->event = release->event;
        r->n = release->n;
    }
    r->in_progress = true;
    r->incomplete = false;
    client->losing.unclaimed |= release->unclaimed;
    r->retry |= release->retry;
    r->crashed |= release->crashed;
    if (release->before_life > client->losing.before_life)
        client->losing.before_life = release->before_life;
    if (release->state != 0)
        r->state = release->state;
    restart(client);
    hf_list_remove(&r->link);
    hf_list_add_tail(&core->recovery->releasing, &r->link);
}

void hf_pending_release_wait(struct hf_core *core, struct hf_client *client, struct hf_ticket *wait)
{
    struct hf_pending_release *r = release_of(client);

    wait->seq = hf_seq_later(wait->seq, r->seq);
    if (!hf_pending_release_is_in_progress(client))
        return;
    if (r->decision_id == 0)
        r->decision_id = hf_core_new_id(core);
    wait->decision = r->decision_id;
}

void hf_pending_release_decides(struct hf_client *client, struct hf_made_decision *also,
                                uint64_t id)
{
    also->decision.id = id;
    release_of(client)->also = also;
}

bool hf_pending_release_is_in_progress(const struct hf_client *client)
{
    return client->recovery->release.in_progress;
}

bool hf_pending_release_is_for(const struct hf_client *client, int32_t state)
{
    return state != 0 && client->recovery->release.state == state;
}

/* False while a decision that was made earlier has not been taken out: the end of the release would
 * overwrite it. */
static bool can_finish(const struct hf_client *client)
{
    const struct hf_pending_release *r = &client->recovery->release;

    return r->decision_id == 0 || !hf_list_linked(&r->made.link);
}

int64_t hf_pending_release_add(struct hf_core *core, struct hf_now now, struct hf_client *client,
                               const struct hf_release *release, struct hf_ticket *wait)
{
    struct hf_pending_release *r = release_of(client);
    uint64_t work_end = core->table->work + core->config.budgets.release;
    int64_t n;

    client->refs++;
    hf_pending_release_begin(core, client, release);
    if (!release_some(core, now, client, work_end) || !can_finish(client))
        r->retry = true; /* a release that has begun must be completed */
    else if (!finish(core, now, client) && r->retry)
        stall(core, now);
    note_slice(core);
    n = r->n;
    if (r->in_progress && !r->retry) {
        forget(core, client);
        n = HF_ENOMEM;
    }
    hf_pending_release_wait(core, client, wait);
    hf_client_unref(core, client);
    return n;
}

bool hf_pending_release_is_due(const struct hf_core *core)
{
    const struct hf_recovery *recovery = core->recovery;

    return !hf_list_empty(&recovery->releasing) && !recovery->release_stalled &&
           recovery->slice_seq != core->durable->batches[core->durable->gathering].seq;
}

void hf_pending_release_go_on(struct hf_core *core, struct hf_now now)
{
    uint64_t work_end = core->table->work + core->config.budgets.release;
    struct hf_client *client;

    while ((client = first_of(&core->recovery->releasing)) != NULL && can_finish(client) &&
           release_some(core, now, client, work_end)) {
        if (!finish(core, now, client)) {
            stall(core, now);
            break;
        }
    }
    note_slice(core);
}

void hf_pending_release_go_on_if_due(struct hf_core *core, struct hf_now now)
{
    if (hf_pending_release_is_due(core))
        hf_pending_release_go_on(core, now);
}

void hf_pending_release_committed(struct hf_core *core)
{
    struct hf_client *client;

    while ((client = first_of(&core->recovery->released)) != NULL &&
           hf_durable_has(core, release_of(client)->seq))
        forget(core, client);
}

/* After a failed commit, makes all releases that are not durable go on: what they released is held
 * again. */
void hf_pending_release_commit_failed(struct hf_core *core)
{
    struct hf_recovery *recovery = core->recovery;

    hf_list_foreach (node, &recovery->released)
        hf_list_entry(node, struct hf_pending_release, link)->in_progress = true;
    hf_list_splice_tail(&recovery->releasing, &recovery->released);
    hf_list_foreach (node, &recovery->releasing) {
        hf_list_entry(node, struct hf_pending_release, link)->seq = 0;
        restart(client_of(node));
    }
    recovery->slice_seq = 0;
    recovery->release_stalled = true; /* until the retry */
}

void hf_pending_release_retry_all(struct hf_core *core)
{
    core->recovery->release_stalled = false;
}

/* Spares unclaimed locks from all releases, because in a new epoch every lock is unclaimed and may
 * be reclaimed. */
void hf_pending_release_keep_unclaimed(struct hf_core *core)
{
    struct hf_list *const lists[] = {&core->recovery->releasing, &core->recovery->released};

    for (size_t i = 0; i < HF_COUNT_OF(lists); i++) {
        hf_list_foreach (node, lists[i])
            client_of(node)->losing.unclaimed = false;
    }
}
