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

int hf_limit_lock(struct hf_core *core, const struct hf_client *client, const struct hf_file *file)
{
    const struct hf_limits *limits = &core->config.limits;
    uint64_t of_client = (uint64_t)client->n_locks + client->n_shares + client->n_waiters;
    uint64_t of_file = (uint64_t)file->n_locks + file->n_shares;
    uint64_t of_all = core->n_locks + core->n_shares + core->n_waiters;

    if (check(of_client, limits->locks_per_client, &core->counters.limit_locks_per_client) < 0 ||
        check(of_file, limits->locks_per_file, &core->counters.limit_locks_per_file) < 0 ||
        check(of_all, limits->locks, &core->counters.limit_locks) < 0)
        return HF_ELIMIT;
    return 0;
}

int hf_limit_waiter(struct hf_core *core, const struct hf_file *file)
{
    return check(file->n_waiters, core->config.limits.waiters_per_file,
                 &core->counters.limit_waiters);
}
