#include "daemon/new_core.h"

#include <sys/resource.h>

#include "base/boot_id.h"
#include "base/log.h"
#include "handles/identity.h"

/* For how long a client's registration outlives its last lock (SPEC section 4). */
enum { LINGER_MS = 5 * 60 * 1000 };

/* Returns how many notices may be in flight at a time: each may need a file descriptor, and so do
 * the connections of clients. */
static uint32_t notify_in_flight(const struct hf_config *config)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 2 >= config->notify_in_flight)
        return config->notify_in_flight;
    return (uint32_t)(files.rlim_cur / 2);
}

/* Warns if only few notices can be in flight at a time. That costs time only after a crash with
 * more dead clients than notices in flight. */
void hf_new_core_warn(const struct hf_config *config)
{
    enum { FEW = 2048 };
    uint32_t in_flight = notify_in_flight(config);

    if (config->grace_seconds == 0 && config->programs == HF_PROGRAMS_ALL)
        hf_log(HF_LOG_WARN, "no grace period: a restart drops every lock",
               HF_STR("reason", "grace.seconds=0"),
               HF_STR("advice", "clients need time to reclaim their locks; the default is 90"));
    if (in_flight < config->notify_in_flight)
        hf_log(in_flight < FEW ? HF_LOG_WARN : HF_LOG_INFO,
               "fewer notices at a time than notify.in_flight", HF_UINT("in_flight", in_flight),
               HF_STR("advice", "raise the limit of open files (LimitNOFILE=)"));
}

struct hf_limits hf_new_core_limits(const struct hf_config *config)
{
    return (struct hf_limits){config->max_clients,
                              config->max_locks_per_owner,
                              config->max_locks_per_client,
                              config->max_locks_per_file,
                              config->max_locks,
                              config->max_waiters_per_file,
                              config->max_waiters_per_owner,
                              config->max_waiters_per_client,
                              config->max_clients_per_host,
                              config->max_locks_per_host,
                              config->max_registrations_per_host,
                              HF_LOCKS_BEYOND};
}

static void add_rule(struct hf_export_rules *rules, const char *name, unsigned offset,
                     const uint8_t *bytes, size_t len)
{
    rules->list[rules->n_own + rules->n_foreign] =
        (struct hf_export_rule){hf_bytes_str(name), offset, hf_bytes(bytes, len)};
}

/* Makes the export rules. Our own exports come first, because the first rule that fits wins. */
static void make_rules(const struct hf_config *config, struct hf_export_rules *rules)
{
    unsigned n_foreign = rules->n_foreign;

    rules->n_own = rules->n_foreign = 0;
    for (; rules->n_own < config->n_export_rules; rules->n_own++) {
        const struct hf_config_export_rule *rule = &config->export_rules[rules->n_own];
        add_rule(rules, rule->name, rule->offset, rule->bytes, rule->len);
    }
    for (; rules->n_foreign < n_foreign; rules->n_foreign++) {
        const struct hf_store_export *other = &rules->foreign[rules->n_foreign];
        add_rule(rules, other->name, other->offset, other->bytes, other->len);
    }
}

struct hf_core_config hf_new_core_config(const struct hf_config *config,
                                         const struct hf_hash_key *hash_key)
{
    struct hf_core_config core = hf_core_config_default();

    core.server_name = hf_bytes_str(config->name);
    core.limits = hf_new_core_limits(config);
    core.grace_mode = hf_config_has_conflict_grace(config) ? HF_GRACE_CONFLICT : HF_GRACE_STRICT;
    core.grace_ms = (uint64_t)config->grace_seconds * 1000;
    core.role = config->programs == HF_PROGRAMS_NSM ? HF_ROLE_MONITOR : HF_ROLE_LOCKS;
    core.durable_locks = config->durable != HF_DURABLE_NO;
    core.continues = config->recovery_notify == HF_RECOVERY_NEEDED && core.role == HF_ROLE_LOCKS;
    core.unflushed = config->durable == HF_DURABLE_PROCESS;
    core.fenced = config->cluster_mode == HF_CLUSTER_STANDBY;
    (void)hf_boot_id_read(core.boot_id);
    core.linger_ms = LINGER_MS;
    core.call_timeout_ms = (uint64_t)config->notify_timeout * 1000;
    core.call_attempts = config->notify_attempts;
    core.notify_in_flight = notify_in_flight(config);
    core.on_failure = (enum hf_on_failure)config->notify_on_failure;
    core.verify_notices = config->notify_verify != 0;
    core.retry_for_ms = (uint64_t)config->notify_retry_for * 1000;
    core.identity = hf_handle_identity;
    core.hash_key = *hash_key;
    core.coherent = config->keeper_socket[0] != '\0' && core.role == HF_ROLE_LOCKS;
    core.grant_unmirrored = config->coherence_unmirrored == HF_UNMIRRORED_GRANT;
    core.claim_ranges = config->coherence_ranges;
    return core;
}

struct hf_core *hf_new_core(const struct hf_config *config, const struct hf_core_config *wanted,
                            struct hf_export_rules *rules)
{
    struct hf_core_config core = *wanted;

    make_rules(config, rules);
    core.export_rules = rules->list;
    core.n_export_rules = rules->n_own + rules->n_foreign;
    core.n_foreign_rules = rules->n_foreign;
    for (unsigned i = 0; i < config->n_clients; i++) {
        const struct hf_config_client *client = &config->clients[i];
        rules->vouches[i] = (struct hf_vouch){hf_bytes_str(client->name), client->addresses.list,
                                              client->addresses.n, client->at_once != 0};
    }
    core.vouches = rules->vouches;
    core.n_vouches = config->n_clients;
    return hf_core_new(&core, &hf_alloc_heap);
}
