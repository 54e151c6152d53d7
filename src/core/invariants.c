/*
 * The invariants of the core's state, for tests and the simulator. Each is checked from both sides:
 * every list and count must say what a walk over all objects finds.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/timer.h"
#include "core/core.h"

#include <string.h>

#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/recovery/recovery.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

/* Totals of the walk over all clients, to compare with the counts in the core. */
struct totals {
    uint64_t locks, shares, waiting, unclaimed, may_reclaim;
    uint32_t nlm, nsm;
};

static void check_lock(const struct hf_core *core, const struct hf_lock *lock)
{
    struct hf_want want = {hf_lock_owner(lock), lock->node.first, lock->node.last, lock->exclusive,
                           false};

    HF_ASSERT(lock->id != 0 && lock->node.first <= lock->node.last);
    HF_ASSERT(lock->held && lock->node.tag == hf_lock_owner(lock));
    HF_ASSERT(!lock->durable || core->config.durable_locks);
    HF_ASSERT(!lock->unclaimed || lock->durable);
    /* the client of a durable lock is registered, whether or not the lock had to wait */
    HF_ASSERT(!lock->durable || hf_lock_owner(lock)->client->registered);
    /* No lock of another owner conflicts with this one. */
    HF_ASSERT(!hf_table_conflict(core, hf_lock_file(lock), &want));
    HF_ASSERT(hf_table_own(core, hf_lock_file(lock), hf_lock_owner(lock), lock->node.first,
                           lock->node.last, NULL) == lock);
    HF_ASSERT(!hf_table_own(core, hf_lock_file(lock), hf_lock_owner(lock), lock->node.first,
                            lock->node.last, lock));
}

static void check_waiter(const struct hf_core *core, const struct hf_waiter *w)
{
    struct hf_want want = {w->owner, w->first, w->last, w->exclusive, false};

    HF_ASSERT(!w->gone && w->id != 0);
    HF_ASSERT(w->granting == (w->outcall.state != HF_OUTCALL_IDLE));
    HF_ASSERT(w->granting != hf_list_linked(&w->in_file));
    if (w->granting || hf_grace_is_strict(core) || hf_list_linked(&w->file->queue->woken))
        /* Nothing to check: the waiter is granted, held back by grace, or about to be served. */
        return;
    /* each waiter has a reason to wait, or the kernel is being asked */
    HF_ASSERT((core->config.coherent &&
               !hf_claim_covers(core, w->file, w->first, w->last, w->exclusive) &&
               (w->outside || hf_claim_is_awaited(core, w->file))) ||
              hf_table_conflict(core, w->file, &want) || hf_waiter_is_behind_own(core, w) ||
              (!w->passes && hf_waiter_ahead(core, w->file, &want, w->id, NULL)));
}

static void check_client(const struct hf_core *core, const struct hf_client *client,
                         struct totals *totals)
{
    uint32_t locks = 0, unclaimed = 0, shares = 0, waiting = 0;

    HF_ASSERT(client->id != 0 && client->refs > 0);
    HF_ASSERT(hf_client_find_id(core, client->id) == client);
    HF_ASSERT(client->protocol != HF_PROTOCOL_NLM || hf_client_is_known_at(client, &client->addr));
    for (const struct hf_lock *lock = hf_client_next_lock(core, client, NULL); lock;
         lock = hf_client_next_lock(core, client, lock)) {
        HF_ASSERT(hf_lock_owner(lock)->client == client);
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
    hf_list_foreach (node, &client->shares) {
        const struct hf_share *share = hf_list_entry(node, struct hf_share, in_client);
        HF_ASSERT(hf_share_find(core, share->file, client, hf_bytes(share->oh, share->oh_len)) ==
                  share);
        HF_ASSERT(!hf_share_conflicts(share->file, share, share->mode, share->access));
        shares++;
    }
    HF_ASSERT(client->n_locks == locks && client->n_unclaimed == unclaimed);
    HF_ASSERT(client->n_waiters == waiting && client->n_shares == shares);
    HF_ASSERT(client->registered || client->notice.state == HF_OUTCALL_IDLE);
    /* only a client with waiters is probed */
    HF_ASSERT(client->probe.state == HF_OUTCALL_IDLE || !hf_list_empty(&client->waiters));
    totals->locks += locks;
    totals->unclaimed += unclaimed;
    totals->waiting += waiting;
    totals->shares += shares;
    totals->may_reclaim += client->may_reclaim;
    totals->nlm += client->protocol == HF_PROTOCOL_NLM;
    totals->nsm += client->protocol == HF_PROTOCOL_NSM && client->registered;
}

static uint64_t check_tree(const struct hf_file *file, const struct hf_itree *tree, bool exclusive)
{
    for (struct hf_itree_node *n = hf_itree_min(tree); n; n = hf_itree_next(n)) {
        const struct hf_lock *lock = hf_container_of(n, struct hf_lock, node);
        HF_ASSERT(hf_lock_file(lock) == file && lock->exclusive == exclusive);
    }
    return hf_itree_check(tree);
}

static void check_shares(const struct hf_file_queue *queue)
{
    uint32_t n_of[HF_SHARE_MODES][HF_SHARE_MODES] = {0};
    uint32_t n = 0;

    hf_list_foreach (node, &queue->shares) {
        const struct hf_share *share = hf_list_entry(node, struct hf_share, in_file);
        n_of[share->mode][share->access]++;
        n++;
    }
    HF_ASSERT(n == queue->n_shares && memcmp(n_of, queue->n_shares_of, sizeof(n_of)) == 0);
}

static void check_file(struct hf_refmap_node *node, void *ctx)
{
    const struct hf_file *file = hf_container_of(node, struct hf_file, node);
    uint32_t waiting = 0;
    uint64_t ticket = 0;

    HF_ASSERT(file->refs > 0);
    HF_ASSERT(check_tree(file, &file->exclusive, true) + check_tree(file, &file->shared, false) ==
              file->n_locks);
    hf_list_foreach (w, &file->queue->waiters) {
        const struct hf_waiter *waiter = hf_list_entry(w, struct hf_waiter, in_file);
        HF_ASSERT(waiter->id > ticket); /* the queue is in the order in which requests arrived */
        ticket = waiter->id;
        waiting++;
    }
    check_shares(file->queue);
    HF_ASSERT(file->queue->n_waiters == waiting);
    HF_ASSERT(hf_list_linked(&file->queue->woken) ==
              (file->queue->has_range || file->queue->resume));
    *(uint64_t *)ctx += file->n_locks;
}

/* Counts the locks in a subtree of an owner's tree, and checks their order of priority. */
static uint64_t check_own(const struct hf_core *core, const struct hf_owner *owner,
                          const struct hf_lock *lock)
{
    const struct hf_lock *const children[] = {hf_at(lock->own_left), hf_at(lock->own_right)};
    uint64_t n = 1;

    HF_ASSERT(hf_lock_owner(lock) == owner && !lock->recent);
    for (size_t i = 0; i < HF_COUNT_OF(children); i++) {
        HF_ASSERT(!children[i] ||
                  hf_lock_priority(core, children[i]) <= hf_lock_priority(core, lock));
        n += children[i] ? check_own(core, owner, children[i]) : 0;
    }
    return n;
}

struct of_owners {
    const struct hf_core *core;
    uint64_t locks;
};

static void check_owner(struct hf_refmap_node *node, void *ctx)
{
    const struct hf_owner *owner = hf_container_of(node, struct hf_owner, node);
    struct of_owners *of = ctx;
    hf_ref ref = owner->recent;

    HF_ASSERT(owner->refs > 0 && (owner->n_recent > 0) == (owner->recent != 0));
    for (unsigned n = 0; n < owner->n_recent; n++) {
        const struct hf_lock *lock = hf_at(ref);
        const struct hf_lock *next = hf_at(lock->own_right);
        HF_ASSERT(hf_lock_owner(lock) == owner && lock->recent && next->own_left == ref);
        ref = lock->own_right;
    }
    HF_ASSERT(ref == owner->recent);
    of->locks += owner->n_recent;
    if (owner->locks)
        of->locks += check_own(of->core, owner, hf_at(owner->locks));
}

/* Compares the counts of a host with the sum over its clients. */
static bool check_host(struct hf_map_node *node, void *ctx)
{
    const struct hf_host *host = hf_container_of(node, struct hf_host, node);
    const struct hf_core *core = ctx;
    uint32_t refs = 0, clients = 0, registrations = 0, held = 0, waiters = 0;

    hf_list_foreach (link, &core->clients->all) {
        const struct hf_client *client = hf_list_entry(link, struct hf_client, all);
        if (client->host != host)
            continue;
        refs++;
        clients += client->protocol == HF_PROTOCOL_NLM;
        registrations += client->protocol == HF_PROTOCOL_NSM && client->registered;
        held += client->n_locks + client->n_shares + client->n_waiters;
        waiters += client->n_waiters;
    }
    HF_ASSERT(host->refs == refs && host->n_clients == clients);
    HF_ASSERT(host->n_registrations == registrations && host->n_held == held);
    HF_ASSERT(host->n_waiters == waiters);
    return true;
}

void hf_core_verify_invariants(const struct hf_core *core)
{
    struct totals totals = {0};
    uint64_t in_files = 0;
    struct of_owners of_owners = {.core = core};

    hf_list_foreach (node, &core->clients->all)
        check_client(core, hf_list_entry(node, struct hf_client, all), &totals);
    hf_refmap_each(&core->table->files, check_file, &in_files);
    hf_refmap_each(&core->table->owners, check_owner, &of_owners);
    hf_map_each(&core->clients->hosts, check_host, (void *)(uintptr_t)core);
    HF_ASSERT(core->table->n_locks == totals.locks && in_files == totals.locks);
    HF_ASSERT(of_owners.locks == totals.locks);
    HF_ASSERT(core->table->n_waiters == totals.waiting && core->table->n_shares == totals.shares);
    HF_ASSERT(core->clients->n_nlm == totals.nlm && core->clients->n_nsm == totals.nsm);
    HF_ASSERT(core->clients->n_unclaimed == totals.unclaimed + totals.may_reclaim);
    for (size_t i = HF_OUTCALL_GRANTS + 1; i < HF_OUTCALL_QUEUES; i++) {
        HF_ASSERT(core->outcalls->queues[i].running <= core->config.notify_in_flight);
        HF_ASSERT(core->outcalls->queues[i].n_fresh <= core->outcalls->queues[i].running);
    }
    HF_ASSERT(core->recovery->number_epoch <= core->epoch);
    HF_ASSERT(hf_epoch_state(core) % 2 == 1 || core->recovery->number_epoch == 0);
    hf_itree_check(&core->timers->tree);
}
