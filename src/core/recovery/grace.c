/*
 * The grace period (GRC-01, GRC-03). It begins at a restart if there are locks to reclaim. It ends
 * when its time is over, when the operator ends it, or as soon as nothing is left to reclaim,
 * because each lock was reclaimed or released, or its client is known to be dead. Locks that are
 * not reclaimed when it ends are released.
 *
 * Where clients may hold locks that are not recorded (start.c), a new lock could conflict with one
 * that is yet to be reclaimed, so grace is strict.
 *
 * A hold (GRC-04) is the grace period not of our clients but of another server's (Ganesha, nfsd,
 * Samba), which reclaim after that server's restart: new locks and waiters wait, nothing else
 * changes.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/event.h"
#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

void hf_grace_begin(struct hf_core *core, struct hf_now now)
{
    /* After SM_SIMU_CRASH, locks that were being released come back if their batch fails. Until
     * that batch is durable there may be something to reclaim; then hf_grace_review() ends grace at
     * once. */
    bool undecided = hf_durable_n_undo(core) > 0;

    core->recovery->grace = (struct hf_grace){.end_ms = now.mono_ms + core->config.grace_ms};
    if (core->clients->n_unclaimed == 0 && !undecided) {
        core->recovery->locks_unknown = false; /* no client can reclaim anything */
        return;
    }
    core->recovery->grace.active = true;
    hf_event_add(core, HF_EVENT_GRACE_BEGAN, (int64_t)core->config.grace_ms,
                 (int64_t)core->clients->n_unclaimed, 0);
}

/*
 * Ends grace, or prolongs it. Reclaims that the kernel cannot be asked about are left unanswered
 * (COH-13), and grace must not end before the clients that sent them were heard. While the keeper
 * is away grace goes on, and once the keeper is back, clients have the whole period again. A file
 * that cannot be opened yet (a lease is being broken) gets one more period and no more, because it
 * may stay closed.
 */
void hf_grace_ran_out(struct hf_core *core, struct hf_now now)
{
    struct hf_grace *grace = &core->recovery->grace;
    bool away = core->config.coherent && !core->claims->up;
    bool closed = core->config.coherent && core->claims->n_correcting > 0;

    if (!away && !grace->unheard && !(closed && !grace->prolonged)) {
        (void)hf_grace_end(core, now);
        return;
    }
    grace->prolonged |= !away;
    grace->unheard = away;
    grace->end_ms = now.mono_ms + core->config.grace_ms;
}

bool hf_grace_is_strict(const struct hf_core *core)
{
    return core->recovery->hold_end_ms > 0 ||
           (core->recovery->grace.active &&
            (core->config.grace_mode == HF_GRACE_STRICT || core->recovery->locks_unknown));
}

/* Begins to release all unclaimed locks. Returns the last client whose release has begun, with a
 * reference; NULL: there was nothing to release. */
static struct hf_client *release_unclaimed(struct hf_core *core, struct hf_now now)
{
    const struct hf_release release = {.unclaimed = true, .retry = true};
    struct hf_client *last = NULL;

    if (core->clients->n_unclaimed == 0)
        return NULL;
    hf_list_foreach_safe (node, &core->clients->all) {
        struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        core->table->work++;
        hf_client_lost(core, client, HF_LOSS_UNRECLAIMED);
        hf_client_bar_reclaim(core, client);
        if (client->n_unclaimed > 0) {
            hf_pending_release_begin(core, client, &release);
            last = client;
        } else {
            hf_client_idle(core, now, client);
        }
    }
    if (last)
        last->refs++;
    return last;
}

/* Notes that clients have had their time to reclaim locks that are not recorded: the next start
 * need not wait for these. */
static void forget_unknown_locks(struct hf_core *core)
{
    if (!core->recovery->locks_unknown)
        return;
    core->recovery->locks_unknown = false;
    hf_durable_write_server(core);
}

struct hf_ticket hf_grace_end(struct hf_core *core, struct hf_now now)
{
    struct hf_grace *grace = &core->recovery->grace;
    int64_t n = core->config.durable_locks ? (int64_t)core->clients->n_unclaimed : 0;
    struct hf_ticket wait = {0};
    struct hf_client *last;

    if (!grace->active)
        return wait;
    grace->active = false;
    forget_unknown_locks(core);
    hf_claims_set_unknown(core, false);
    last = release_unclaimed(core, now);
    hf_event_add(core, HF_EVENT_GRACE_ENDED, (int64_t)grace->reclaimed, n, 0);
    if (last) {
        hf_pending_release_go_on(core, now);
        hf_pending_release_wait(core, last, &wait);
        hf_client_unref(core, last);
    }
    return wait;
}

/* Releases locks that came back when a client refused a grant after grace: the client had not
 * reclaimed them in time. */
static void release_put_back(struct hf_core *core, struct hf_now now)
{
    struct hf_client *last = release_unclaimed(core, now);

    core->wait->put_back = false;
    if (!last)
        return;
    hf_pending_release_go_on(core, now);
    hf_client_unref(core, last);
}

/*
 * Ends grace when nothing is left to reclaim. The reclaim or release that came last may be undone
 * with its batch, so grace ends only when that batch is durable.
 */
void hf_grace_review(struct hf_core *core, struct hf_now now)
{
    struct hf_grace *grace = &core->recovery->grace;

    if (!grace->active) {
        if (core->wait->put_back)
            release_put_back(core, now);
        return;
    }
    core->wait->put_back = false;
    if (core->clients->n_unclaimed > 0 || core->wait->n_unclaimed > 0) {
        grace->drained_seq = 0;
        return;
    }
    if (grace->drained_seq == 0)
        grace->drained_seq = hf_durable_last_change(core);
    if (hf_durable_has(core, grace->drained_seq))
        (void)hf_grace_end(core, now);
}
