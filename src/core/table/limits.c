/* Limits on everything that peers can make grow (SPEC section 4), each with its counter. */
#include "core/clients/clients.h"
#include "core/common/event.h"
#include "core/internal.h"
#include "core/table/private.h"

/*
 * Checks the limits on locks; returns the one that is hit, or HF_LIMITS. A LOCK can increase the
 * number of locks by up to two (in the middle of a lock of the same owner in the other mode), or
 * decrease it. It is refused, before anything changes, if the number would increase beyond a limit.
 * A waiter counts as one lock of its client and in the total as soon as it begins to wait; its
 * grant is never refused.
 *
 * The limit on the locks of one owner bounds what one LOCK or UNLOCK can change (SEC-05), which
 * cannot be done in slices.
 *
 * An UNLOCK in the middle of a lock makes two locks of it. Such an UNLOCK must not be refused,
 * because the client forgets the lock whatever the answer is. So it may exceed the limits, and so
 * may the reclaim of locks that were split like that; but only by limits.beyond, because a peer
 * could cut one lock into any number. For an UNLOCK the highest limits count under which locks were
 * granted (table->highest): an operator who lowers a limit means new locks.
 */
static enum hf_limit limit_hit(const struct hf_core *core, const struct hf_limits *limits,
                               const struct hf_client *client, const struct hf_file *file,
                               uint64_t more, uint64_t beyond)
{
    if ((uint64_t)client->n_locks + client->n_shares + client->n_waiters + more >
        limits->locks_per_client + beyond)
        return HF_LIMIT_LOCKS_PER_CLIENT;
    if (!client->host->is_local &&
        (uint64_t)client->host->n_held + more > limits->locks_per_host + beyond)
        return HF_LIMIT_LOCKS_PER_HOST;
    if ((uint64_t)file->n_locks + file->queue->n_shares + more > limits->locks_per_file + beyond)
        return HF_LIMIT_LOCKS_PER_FILE;
    if (core->table->n_locks + core->table->n_shares + core->table->n_waiters + more >
        limits->locks + beyond)
        return HF_LIMIT_LOCKS;
    return HF_LIMITS;
}

static enum hf_limit owner_limit_hit(const struct hf_core *core, const struct hf_limits *limits,
                                     const struct hf_owner *owner, const struct hf_file *file,
                                     uint64_t more, uint64_t beyond)
{
    if (owner->n_locks + more > limits->locks_per_owner + beyond)
        return HF_LIMIT_LOCKS_PER_OWNER;
    return limit_hit(core, limits, owner->client, file, more, beyond);
}

static void at_least(uint32_t *highest, uint64_t to)
{
    if (to > *highest)
        *highest = to < UINT32_MAX ? (uint32_t)to : UINT32_MAX;
}

void hf_limits_raise(struct hf_core *core, const struct hf_limits *limits)
{
    struct hf_limits *highest = &core->table->highest;

    at_least(&highest->locks_per_owner, limits->locks_per_owner);
    at_least(&highest->locks_per_client, limits->locks_per_client);
    at_least(&highest->locks_per_host, limits->locks_per_host);
    at_least(&highest->locks_per_file, limits->locks_per_file);
    at_least(&highest->locks, limits->locks);
}

void hf_limits_held(struct hf_core *core, const struct hf_client *client,
                    const struct hf_file *file)
{
    struct hf_limits *highest = &core->table->highest;

    at_least(&highest->locks_per_client, (uint64_t)client->n_locks + client->n_shares);
    at_least(&highest->locks_per_host, client->host->n_held);
    at_least(&highest->locks_per_file, (uint64_t)file->n_locks + file->queue->n_shares);
    at_least(&highest->locks, core->table->n_locks + core->table->n_shares);
}

void hf_limits_held_by(struct hf_core *core, const struct hf_owner *owner,
                       const struct hf_file *file)
{
    at_least(&core->table->highest.locks_per_owner, owner->n_locks);
    hf_limits_held(core, owner->client, file);
}

static int count_hit(struct hf_core *core, enum hf_limit limit, const struct hf_client *client)
{
    return limit == HF_LIMITS ? 0 : hf_limit_count(core, limit, &client->addr, client->name);
}

int hf_limit_one(struct hf_core *core, const struct hf_client *client, const struct hf_file *file)
{
    return count_hit(core, limit_hit(core, &core->config.limits, client, file, 1, 0), client);
}

static int limit_growth(struct hf_core *core, const struct hf_file *file,
                        const struct hf_want *want, uint64_t beyond)
{
    const struct hf_limits *limits = &core->config.limits;
    int more;

    if (owner_limit_hit(core, limits, want->owner, file, HF_TABLE_GROWTH_MAX, beyond) == HF_LIMITS)
        return 0; /* the common case is far from every limit */
    more = hf_table_growth(core, file, want);
    return more > 0
               ? count_hit(core,
                           owner_limit_hit(core, limits, want->owner, file, (uint64_t)more, beyond),
                           want->owner->client)
               : 0;
}

int hf_limit_lock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want)
{
    return limit_growth(core, file, want, 0);
}

int hf_limit_reclaim(struct hf_core *core, const struct hf_file *file, const struct hf_want *want)
{
    return limit_growth(core, file, want, core->config.limits.beyond);
}

/* Checks the limits for an UNLOCK that splits a lock. Waiters do not count here: an upgrade may
 * wait beyond the limits, and must not hold up an UNLOCK. */
static enum hf_limit unlock_limit_hit(const struct hf_core *core, const struct hf_owner *owner,
                                      const struct hf_file *file)
{
    const struct hf_limits *limits = &core->table->highest;
    const struct hf_client *client = owner->client;
    const struct hf_host *host = client->host;

    if (owner->n_locks >= (uint64_t)limits->locks_per_owner + limits->beyond)
        return HF_LIMIT_LOCKS_PER_OWNER;
    if ((uint64_t)client->n_locks + client->n_shares >=
        (uint64_t)limits->locks_per_client + limits->beyond)
        return HF_LIMIT_LOCKS_PER_CLIENT;
    if (!host->is_local &&
        host->n_held - host->n_waiters >= (uint64_t)limits->locks_per_host + limits->beyond)
        return HF_LIMIT_LOCKS_PER_HOST;
    if ((uint64_t)file->n_locks + file->queue->n_shares >=
        (uint64_t)limits->locks_per_file + limits->beyond)
        return HF_LIMIT_LOCKS_PER_FILE;
    if (core->table->n_locks + core->table->n_shares >= (uint64_t)limits->locks + limits->beyond)
        return HF_LIMIT_LOCKS;
    return HF_LIMITS;
}

int hf_limit_unlock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want)
{
    enum hf_limit limit = unlock_limit_hit(core, want->owner, file);

    return limit != HF_LIMITS && hf_table_splits(core, file, want)
               ? count_hit(core, limit, want->owner->client)
               : 0;
}

/*
 * Checks the limits for one more waiter, which counts as a lock to come. But if its grant will
 * leave no more locks than there are (an upgrade), no limit on locks refuses the waiter. Each lock
 * allows one such waiter, so there are never more than twice as many objects as the limits say.
 */
int hf_limit_wait(struct hf_core *core, const struct hf_file *file, const struct hf_want *want)
{
    const struct hf_limits *limits = &core->config.limits;
    const struct hf_owner *owner = want->owner;
    uint32_t waiters = owner->waiting->n_waiters;
    enum hf_limit limit = HF_LIMITS;

    if (file->queue->n_waiters >= limits->waiters_per_file)
        limit = HF_LIMIT_WAITERS_PER_FILE;
    else if (waiters >= limits->waiters_per_owner)
        limit = HF_LIMIT_WAITERS_PER_OWNER;
    else if (owner->client->n_waiters >= limits->waiters_per_client)
        limit = HF_LIMIT_WAITERS_PER_CLIENT;
    if (limit != HF_LIMITS)
        return count_hit(core, limit, owner->client);
    limit = owner->n_locks + waiters >= limits->locks_per_owner
                ? HF_LIMIT_LOCKS_PER_OWNER
                : limit_hit(core, limits, owner->client, file, 1, 0);
    if (limit != HF_LIMITS && waiters < owner->n_locks && hf_table_growth(core, file, want) <= 0)
        return 0;
    return count_hit(core, limit, owner->client);
}
