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

/* The counter of the limit on locks that is reached, or NULL. */
static uint64_t *lock_limit(struct hf_core *core, const struct hf_client *client,
                            const struct hf_file *file)
{
    const struct hf_limits *limits = &core->config.limits;

    if ((uint64_t)client->n_locks + client->n_shares + client->n_waiters >=
        limits->locks_per_client)
        return &core->counters.limit_locks_per_client;
    if ((uint64_t)file->n_locks + file->crowd->n_shares >= limits->locks_per_file)
        return &core->counters.limit_locks_per_file;
    if (core->n_locks + core->n_shares + core->n_waiters >= limits->locks)
        return &core->counters.limit_locks;
    return NULL;
}

bool hf_limit_room(struct hf_core *core, const struct hf_client *client, const struct hf_file *file)
{
    return lock_limit(core, client, file) == NULL;
}

int hf_limit_lock(struct hf_core *core, const struct hf_client *client, const struct hf_file *file)
{
    uint64_t *hits = lock_limit(core, client, file);

    if (!hits)
        return 0;
    ++*hits;
    return HF_ELIMIT;
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
