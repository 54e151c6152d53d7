/*
 * Every invariant of the state, asserted from both sides: what each list and count says is what a
 * walk finds. For tests and the simulator; it costs a walk over everything.
 */
#include "core/parts.h"

/* What the walk over clients found, to compare with the totals. */
struct totals {
    uint64_t locks, shares, waiting, unclaimed, may_reclaim;
    uint32_t nlm, nsm;
};

static void check_lock(const struct hf_core *core, const struct hf_lock *lock)
{
    struct hf_want want = {lock->owner, lock->node.first, lock->node.last, lock->exclusive, false};

    HF_ASSERT(lock->id != 0 && lock->node.first <= lock->node.last);
    HF_ASSERT(hf_list_linked(&lock->in_owner));
    HF_ASSERT(!lock->durable || core->config.durable_locks);
    HF_ASSERT(!lock->unclaimed || lock->durable);
    /* a durable lock's client is registered, on the direct and on the waited path */
    HF_ASSERT(!lock->durable || lock->owner->client->registered);
    HF_ASSERT(!hf_held_conflict(lock->file, &want)); /* no two conflicting holders */
    HF_ASSERT(hf_held_own(lock->file, lock->owner, lock->node.first, lock->node.last, NULL) ==
              lock);
    HF_ASSERT(!hf_held_own(lock->file, lock->owner, lock->node.first, lock->node.last, lock));
}

static void check_waiter(const struct hf_core *core, const struct hf_waiter *w)
{
    struct hf_want want = {w->owner, w->first, w->last, w->exclusive, false};
    bool strict = core->grace.active && core->config.grace_mode == HF_GRACE_STRICT;

    HF_ASSERT(!w->gone && w->id != 0);
    HF_ASSERT(w->granting == (w->errand.state != HF_ERRAND_IDLE));
    HF_ASSERT(w->granting != hf_list_linked(&w->in_file));
    if (w->granting || strict || hf_list_linked(&w->file->crowd->woken))
        return; /* looked at later */
    /* no waiter sleeps when it could be granted */
    HF_ASSERT(hf_held_conflict(w->file, &want) || hf_waiter_ahead(w->file, &want, w->id, NULL) ||
              hf_waiter_is_behind_own(w));
}

static void check_client(const struct hf_core *core, const struct hf_client *client,
                         struct totals *totals)
{
    uint32_t locks = 0, unclaimed = 0, shares = 0, waiting = 0;

    HF_ASSERT(client->id != 0 && client->refs > 0);
    HF_ASSERT(hf_client_find_id(core, client->id) == client);
    hf_list_foreach (node, &client->locks) {
        const struct hf_lock *lock = hf_list_entry(node, struct hf_lock, in_client);
        HF_ASSERT(lock->owner->client == client);
        check_lock(core, lock);
        locks++;
        unclaimed += lock->unclaimed;
    }
    hf_list_foreach (node, &client->waiters) {
        const struct hf_waiter *w = hf_list_entry(node, struct hf_waiter, in_client);
        HF_ASSERT(w->owner->client == client);
        check_waiter(core, w);
        waiting += !w->granting;
    }
    hf_list_foreach (node, &client->shares)
        shares++;
    HF_ASSERT(client->n_locks == locks && client->n_unclaimed == unclaimed);
    HF_ASSERT(client->n_waiters == waiting && client->n_shares == shares);
    HF_ASSERT(client->registered || client->notice.state == HF_ERRAND_IDLE);
    /* nobody is asked who does not wait */
    HF_ASSERT(client->probe.state == HF_ERRAND_IDLE || !hf_list_empty(&client->waiters));
    totals->locks += locks;
    totals->unclaimed += unclaimed;
    totals->waiting += waiting;
    totals->shares += shares;
    totals->may_reclaim += client->may_reclaim;
    totals->nlm += client->protocol == HF_PROTOCOL_NLM;
    totals->nsm += client->protocol == HF_PROTOCOL_NSM && client->registered;
}

static bool check_file(struct hf_map_node *node, void *ctx)
{
    const struct hf_file *file = hf_container_of(node, struct hf_file, node);
    uint32_t waiting = 0, exclusive = 0;
    uint64_t ticket = 0;

    HF_ASSERT(file->refs > 0);
    HF_ASSERT(hf_itree_check(&file->locks) == file->n_locks);
    for (struct hf_itree_node *n = hf_itree_min(&file->locks); n; n = hf_itree_next(n)) {
        const struct hf_lock *lock = hf_container_of(n, struct hf_lock, node);
        HF_ASSERT(lock->file == file);
        exclusive += lock->exclusive;
    }
    hf_list_foreach (w, &file->crowd->waiters) {
        const struct hf_waiter *waiter = hf_list_entry(w, struct hf_waiter, in_file);
        HF_ASSERT(waiter->id > ticket); /* first come, first served */
        ticket = waiter->id;
        waiting++;
    }
    HF_ASSERT(file->crowd->n_waiters == waiting && file->n_exclusive == exclusive);
    *(uint64_t *)ctx += file->n_locks;
    return true;
}

static bool check_owner(struct hf_map_node *node, void *ctx)
{
    const struct hf_owner *owner = hf_container_of(node, struct hf_owner, node);
    uint32_t locks = 0;

    HF_ASSERT(owner->refs > 0);
    hf_list_foreach (l, &owner->locks) {
        HF_ASSERT(hf_list_entry(l, struct hf_lock, in_owner)->owner == owner);
        locks++;
    }
    HF_ASSERT(owner->n_locks == locks);
    *(uint64_t *)ctx += locks;
    return true;
}

void hf_core_check(const struct hf_core *core)
{
    struct totals totals = {0};
    uint64_t in_files = 0;
    uint64_t of_owners = 0;

    hf_list_foreach (node, &core->clients)
        check_client(core, hf_list_entry(node, struct hf_client, all), &totals);
    hf_map_each(&core->files, check_file, &in_files);
    hf_map_each(&core->owners, check_owner, &of_owners);
    HF_ASSERT(core->n_locks == totals.locks && in_files == totals.locks);
    HF_ASSERT(of_owners == totals.locks);
    HF_ASSERT(core->n_waiters == totals.waiting && core->n_shares == totals.shares);
    HF_ASSERT(core->n_nlm_clients == totals.nlm && core->n_nsm_clients == totals.nsm);
    HF_ASSERT(core->n_unclaimed == totals.unclaimed + totals.may_reclaim);
    HF_ASSERT(core->notices_running <= core->config.notify_in_flight);
    HF_ASSERT(core->probes_running <= core->config.notify_in_flight);
    HF_ASSERT(hf_core_state(core) % 2 == 1 || core->epoch == 0);
    hf_itree_check(&core->timers);
}
