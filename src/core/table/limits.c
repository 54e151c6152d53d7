/* Limits on all that peers can make grow (SPEC section 4), each with its counter. */
#include "core/clients/clients.h"
#include "core/internal.h"
#include "core/table/private.h"

/*
 * The limits on locks. A LOCK can increase the number of locks by up to two (in the middle of a
 * lock of the same owner in the other mode), or decrease it. It is refused, before anything
 * changes, if the number would increase beyond a limit. A waiter counts as one lock of its client
 * and in the total as soon as it begins to wait; its grant is never refused.
 *
 * The limit on the locks of one owner bounds what one LOCK or UNLOCK can change (SEC-05), which
 * cannot be done in slices.
 *
 * An UNLOCK in the middle of a lock makes two of it. It must not be refused, because the client
 * forgets the lock whatever the answer is. So it may exceed the limits, and so may the reclaim of
 * locks that were held like that; but only by HF_LOCKS_BEYOND, because a peer could cut one lock
 * into any number.
 */
static uint64_t *limit_hit(struct hf_core *core, const struct hf_client *client,
                           const struct hf_file *file, uint64_t more, uint64_t beyond)
{
    const struct hf_limits *limits = &core->config.limits;

    if ((uint64_t)client->n_locks + client->n_shares + client->n_waiters + more >
        limits->locks_per_client + beyond)
        return &core->counters.limit_locks_per_client;
    if (!client->host->is_local &&
        (uint64_t)client->host->n_held + more > limits->locks_per_host + beyond)
        return &core->counters.limit_locks_per_host;
    if ((uint64_t)file->n_locks + file->queue->n_shares + more > limits->locks_per_file + beyond)
        return &core->counters.limit_locks_per_file;
    if (core->table->n_locks + core->table->n_shares + core->table->n_waiters + more >
        limits->locks + beyond)
        return &core->counters.limit_locks;
    return NULL;
}

static uint64_t *owner_limit_hit(struct hf_core *core, const struct hf_owner *owner,
                                 const struct hf_file *file, uint64_t more, uint64_t beyond)
{
    if (owner->n_locks + more > core->config.limits.locks_per_owner + beyond)
        return &core->counters.limit_locks_per_owner;
    return limit_hit(core, owner->client, file, more, beyond);
}

static int count_hit(uint64_t *hits)
{
    if (!hits)
        return 0;
    ++*hits;
    return HF_ELIMIT;
}

int hf_limit_one(struct hf_core *core, const struct hf_client *client, const struct hf_file *file)
{
    return count_hit(limit_hit(core, client, file, 1, 0));
}

static int limit_growth(struct hf_core *core, const struct hf_file *file,
                        const struct hf_want *want, uint64_t beyond)
{
    int more;

    if (!owner_limit_hit(core, want->owner, file, HF_TABLE_GROWTH_MAX, beyond))
        return 0; /* far from any limit, as nearly always */
    more = hf_table_growth(core, file, want);
    return more > 0 ? count_hit(owner_limit_hit(core, want->owner, file, (uint64_t)more, beyond))
                    : 0;
}

int hf_limit_lock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want)
{
    return limit_growth(core, file, want, 0);
}

int hf_limit_reclaim(struct hf_core *core, const struct hf_file *file, const struct hf_want *want)
{
    return limit_growth(core, file, want, HF_LOCKS_BEYOND);
}

int hf_limit_unlock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want)
{
    uint64_t *hits = owner_limit_hit(core, want->owner, file, 1, HF_LOCKS_BEYOND);

    return hits && hf_table_splits(core, file, want) ? count_hit(hits) : 0;
}

int hf_limit_waiter(struct hf_core *core, const struct hf_owner *owner, const struct hf_file *file)
{
    const struct hf_limits *limits = &core->config.limits;

    if (file->queue->n_waiters >= limits->waiters_per_file)
        return count_hit(&core->counters.limit_waiters);
    if (owner->n_locks + owner->waiting->n_waiters >= limits->locks_per_owner)
        return count_hit(&core->counters.limit_locks_per_owner);
    if (owner->waiting->n_waiters >= limits->waiters_per_owner)
        return count_hit(&core->counters.limit_waiters_per_owner);
    if (owner->client->n_waiters >= limits->waiters_per_client)
        return count_hit(&core->counters.limit_waiters_per_client);
    return 0;
}
