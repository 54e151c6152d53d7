/* Limits on everything a peer can make grow (SPEC section 4), each with its counter. */
#include "core/parts.h"

static int check(uint64_t have, uint64_t limit, uint64_t *hits)
{
    if (have < limit)
        return 0;
    ++*hits;
    return HF_ELIMIT;
}

int hf_limit_client(struct hf_core *core)
{
    return check(core->n_nlm_clients, core->config.limits.clients, &core->counters.limit_clients);
}

int hf_limit_monitor(struct hf_core *core)
{
    return check(core->n_nsm_clients, core->config.limits.clients, &core->counters.limit_monitors);
}

/*
 * The limits on locks. A LOCK can make up to two more than there were (in the middle of a lock of
 * the same owner and the other mode), or fewer; it is refused, before anything changes, if there
 * would be more of them afterwards than there were, and than a limit allows. A waiter counts as one
 * lock of its client and in all from when it begins to wait; its grant is not refused any more.
 *
 * An UNLOCK in the middle makes two of one, and must not be refused: the client forgets the lock,
 * whatever it is told. So it may go beyond the limits, and so may the reclaim of what was held so.
 * Not without end, because a peer could cut one lock into any number: HF_LOCKS_BEYOND.
 */
static uint64_t *limit_hit(struct hf_core *core, const struct hf_client *client,
                           const struct hf_file *file, uint64_t more, uint64_t beyond)
{
    const struct hf_limits *limits = &core->config.limits;

    if ((uint64_t)client->n_locks + client->n_shares + client->n_waiters + more >
        limits->locks_per_client + beyond)
        return &core->counters.limit_locks_per_client;
    if ((uint64_t)file->n_locks + file->crowd->n_shares + more > limits->locks_per_file + beyond)
        return &core->counters.limit_locks_per_file;
    if (core->n_locks + core->n_shares + core->n_waiters + more > limits->locks + beyond)
        return &core->counters.limit_locks;
    return NULL;
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
    const struct hf_client *client = want->owner->client;
    int more;

    if (!limit_hit(core, client, file, HF_HELD_GROWTH_MAX, beyond))
        return 0; /* far from any limit, as nearly always */
    more = hf_held_growth(file, want);
    return more > 0 ? count_hit(limit_hit(core, client, file, (uint64_t)more, beyond)) : 0;
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
    uint64_t *hits = limit_hit(core, want->owner->client, file, 1, HF_LOCKS_BEYOND);

    return hits && hf_held_splits(file, want) ? count_hit(hits) : 0;
}

int hf_limit_waiter(struct hf_core *core, const struct hf_file *file)
{
    return check(file->crowd->n_waiters, core->config.limits.waiters_per_file,
                 &core->counters.limit_waiters);
}

void hf_core_set_limits(struct hf_core *core, const struct hf_limits *limits)
{
    core->config.limits = *limits;
}
