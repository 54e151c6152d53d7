/*
 * A dead client: it has restarted (NSM-05), or cannot be told of our own restart (NOT-03), or says
 * itself that it holds nothing any more (FREE_ALL), or the operator says so. Its waiters are
 * removed at once; a pending release (pending_release.c) takes its locks and shares, on every file.
 * Each lock is released in a transaction of its own; the end of the turn serves the waiters for
 * them.
 *
 * When memory runs out or a commit fails, a FREE_ALL or an operator is refused and must ask again,
 * unless the release is made in slices. A release in slices is retried, and so is that of a crashed
 * client.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

/* Removes the client's waiters of lives before this one, which are not durable; returns how
 * many. */
static int64_t release_waiters(struct hf_core *core, struct hf_client *client, uint32_t life,
                               enum hf_end end)
{
    int64_t n = 0;

    hf_list_foreach_safe (node, &client->waiters) {
        struct hf_waiter *waiter = hf_list_entry(node, struct hf_waiter, in_client);
        core->table->work++;
        if (waiter->life >= life)
            continue;
        hf_waiter_end(core, waiter, end);
        n++;
    }
    return n;
}

/*
 * Leaves the client's lives before `life` behind: a late request with the state number of such a
 * life no longer belongs to it (hf_client_life()).
 */
static void leave_behind(struct hf_core *core, struct hf_client *client, uint32_t life)
{
    /* Drops the client's requests that wait for an answer of the kernel. */
    hf_claims_departed(core, &client->addr);
    if (life > client->lives.oldest && life <= HF_LIFE_MAX)
        client->lives.oldest = life;
}

/* Starts a release. Returns how many locks, shares and waiters the client loses; HF_ENOMEM: not
 * all. */
static int64_t lose(struct hf_core *core, struct hf_now now, struct hf_client *client,
                    struct hf_release *release, struct hf_ticket *wait)
{
    uint64_t decision = wait->decision;
    int64_t all, n;

    client->refs++;
    leave_behind(core, client, release->before_life);
    release->n = release_waiters(core, client, release->before_life,
                                 release->crashed ? HF_END_CRASHED : HF_END_RELEASED);
    all = release->n + client->n_locks + client->n_shares;
    hf_client_bar_reclaim(core, client);
    n = hf_pending_release_add(core, now, client, release, wait);
    hf_client_unref(core, client);
    return wait->decision != decision ? all : n;
}

int64_t hf_client_release_before(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                 uint32_t life, struct hf_ticket *wait)
{
    struct hf_release release = {
        .before_life = life, .log = true, .event = HF_EVENT_CLIENT_RELEASED};

    return lose(core, now, client, &release, wait);
}

int64_t hf_client_release_all(struct hf_core *core, struct hf_now now, struct hf_client *client,
                              struct hf_ticket *wait)
{
    bool began;

    return hf_client_release_before(core, now, client,
                                    hf_client_restarts(core, client, 0, true, &began), wait);
}

static void count_crash(struct hf_core *core)
{
    core->counters.crashes_detected++;
    core->counters.crash_cleanups++;
}

/* Treats the client as after a crash notice that needs no proof and has no state number: the
 * release is retried until it is durable. */
int64_t hf_client_declared_dead(struct hf_core *core, struct hf_now now, struct hf_client *client,
                                struct hf_ticket *wait)
{
    bool began;
    struct hf_release release = {.before_life = hf_client_restarts(core, client, 0, true, &began),
                                 .retry = true,
                                 .crashed = true,
                                 .log = true,
                                 .event = HF_EVENT_CLIENT_DEAD};

    count_crash(core);
    return lose(core, now, client, &release, wait);
}

int hf_client_crashed(struct hf_core *core, struct hf_now now, struct hf_client *client,
                      int32_t state, uint32_t life, struct hf_ticket *wait)
{
    struct hf_release release = {.before_life = life,
                                 .state = state,
                                 .retry = client->protocol == HF_PROTOCOL_NLM,
                                 .crashed = true,
                                 .log = true,
                                 .event = HF_EVENT_CLIENT_CRASHED};
    int64_t rv;

    client->refs++;
    leave_behind(core, client, life);
    (void)release_waiters(core, client, life, HF_END_CRASHED);
    hf_client_bar_reclaim(core, client);
    count_crash(core);
    rv = hf_pending_release_add(core, now, client, &release, wait);
    hf_client_unref(core, client);
    return rv < 0 ? HF_ENOMEM : 0;
}

/* True if the client has locks to reclaim. Without durable locks nobody knows how many, and one
 * reclaim is enough. */
static bool has_to_reclaim(const struct hf_client *client)
{
    return client->n_unclaimed > 0 || (client->may_reclaim && !client->reclaimed);
}

/* Reports the locks that the client is about to lose. Without durable locks their number is
 * unknown. */
void hf_client_lost(struct hf_core *core, const struct hf_client *client, enum hf_loss reason)
{
    static const enum hf_event_kind EVENTS[HF_LOSSES] = {
        [HF_LOSS_UNRECLAIMED] = HF_EVENT_CLIENT_UNRECLAIMED,
        [HF_LOSS_UNREACHABLE] = HF_EVENT_CLIENT_UNREACHABLE,
        [HF_LOSS_OUTSIDE] = HF_EVENT_CLIENT_OUTSIDE,
    };

    if (!has_to_reclaim(client))
        return;
    core->counters.locks_lost[reason] += client->n_unclaimed;
    core->counters.clients_lost[reason]++;
    hf_client_event(core, EVENTS[reason], client, client->m.state, client->n_unclaimed, 0);
}

/*
 * Releases only the locks that the client has not reclaimed. A client that has reclaimed some, or
 * has locked anew, knows of our restart and lives, even if its status monitor does not answer. Many
 * clients may be given up at once while no answer waits for it: each batch gets one slice.
 */
void hf_client_unreachable(struct hf_core *core, struct hf_now now, struct hf_client *client)
{
    const struct hf_release release = {.unclaimed = true, .retry = true, .crashed = true};

    if (client->protocol != HF_PROTOCOL_NLM)
        return;
    /* With HF_ON_FAILURE_KEEP, locks stay until grace ends. */
    if (core->config.on_failure == HF_ON_FAILURE_KEEP) {
        if (has_to_reclaim(client))
            hf_client_event(core, HF_EVENT_CLIENT_UNTOLD, client, client->m.state,
                            client->n_unclaimed, 0);
        return;
    }
    if (core->recovery->start.recovers == HF_RECOVERS_NOT && !has_to_reclaim(client))
        return; /* an operator asked for this notice, and nothing depends on its answer */
    hf_client_lost(core, client, HF_LOSS_UNREACHABLE);
    if (!client->reclaimed)
        hf_client_bar_reclaim(core, client);
    count_crash(core);
    hf_pending_release_begin(core, client, &release);
    hf_pending_release_go_on_if_due(core, now);
}
