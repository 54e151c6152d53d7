#include "daemon/config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "daemon/config_private.h"

void hf_config_init(struct hf_config *config)
{
    char error[HF_CONFIG_ERROR_MAX];
    const char *directory;

    memset(config, 0, sizeof(*config));
    if (gethostname(config->name, sizeof(config->name)) < 0 || config->name[0] == '\0')
        hf_format(config->name, sizeof(config->name), "localhost");
    config->name[sizeof(config->name) - 1] = '\0';
    hf_format(config->node, sizeof(config->node), "%s", config->name);
    for (size_t i = 0; i < hf_config_n_keys; i++) {
        int rv = hf_config_keys[i].initial ? hf_config_value_parse(config, &hf_config_keys[i],
                                                                   hf_config_keys[i].initial, error)
                                           : 0;
        HF_ASSERT(rv == 0);
    }
    /* The directory that systemd made for this unit (StateDirectory=) is the default. */
    directory = getenv("STATE_DIRECTORY");
    if (directory && directory[0] == '/' && !strchr(directory, ':'))
        (void)hf_text_copy(config->path, sizeof(config->path), directory);
}

const struct hf_config_addresses *hf_config_served(const struct hf_config *config)
{
    return config->cluster_addresses.n > 0 ? &config->cluster_addresses : &config->listen;
}

static const char NAME_LETTERS[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";

static bool listens_everywhere(const struct hf_config *config)
{
    for (unsigned i = 0; i < config->listen.n; i++) {
        if (!hf_addr_is_any(&config->listen.list[i]))
            return false;
    }
    return true;
}

bool hf_config_has_conflict_grace(const struct hf_config *config)
{
    if (config->grace_mode == HF_GRACE_AUTO)
        return config->cluster_mode == HF_CLUSTER_STANDBY && config->durable;
    return config->grace_mode == HF_GRACE_BY_CONFLICT;
}

/*
 * Returns what is wrong with the configuration of a service that has standbys; NULL if it is valid.
 */
static const char *check_standby(const struct hf_config *config)
{
    if (config->recovery_notify == HF_RECOVERY_NEEDED && !config->require_sync)
        return "recovery.notify=needed needs cluster.require_sync=yes: a failover that loses "
               "commits "
               "must be impossible, because clients would not be told of what they lost";
    if (config->backend != HF_BACKEND_POSTGRES)
        return "cluster.mode=standby needs store.backend=postgres: the lease is a row of the "
               "database";
    if (strlen(config->node) > HF_CONFIG_NODE_MAX)
        return "cluster.node is longer than 63 bytes";
    if ((uint64_t)config->renew_ms * 2 >= config->lease_ms)
        return "cluster.lease_ms must be more than twice cluster.renew_ms: one renewal may fail";
    if ((uint64_t)config->take_ms * 10 <= (uint64_t)config->lease_ms * 11)
        return "cluster.take_ms must exceed cluster.lease_ms by more than 10 %: clocks may differ "
               "by so much";
    return NULL;
}

/* True for a name that every host uses for itself, such as localhost. */
static bool means_every_host(const char *name)
{
    static const char *const NAMES[] = {"localhost",  "localhost.localdomain", "localhost4",
                                        "localhost6", "ip6-localhost",         "ip6-loopback"};
    struct hf_addr addr;

    for (size_t i = 0; i < HF_COUNT_OF(NAMES); i++) {
        if (strcasecmp(name, NAMES[i]) == 0)
            return true;
    }
    return hf_addr_parse(name, &addr) == 0 && hf_addr_is_loopback(&addr);
}

int hf_config_check(const struct hf_config *config, char error[HF_CONFIG_ERROR_MAX])
{
    const char *what = config->cluster_mode == HF_CLUSTER_STANDBY ? check_standby(config) : NULL;

    for (unsigned i = 0; i < config->n_clients; i++) {
        if (config->clients[i].addresses.n > 0)
            continue;
        hf_format(error, HF_CONFIG_ERROR_MAX,
                  "[client %.200s] has no addresses= that it may come from",
                  config->clients[i].name);
        return HF_EINVAL;
    }

    if (what) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "%s", what);
        return HF_EINVAL;
    }
    if (config->grace_mode == HF_GRACE_BY_CONFLICT && config->durable == HF_DURABLE_NO)
        what = "grace.mode=conflict needs locks.durable=yes or process: it must know what was held";
    else if (config->recovery_notify == HF_RECOVERY_NEEDED && config->durable == HF_DURABLE_NO)
        what = "recovery.notify=needed needs locks.durable=yes or process: without records every "
               "start must tell the clients";
    else if (config->durable == HF_DURABLE_PROCESS && config->backend == HF_BACKEND_POSTGRES)
        what =
            "locks.durable=process needs store.backend=lmdb: what is written but not yet on disk "
            "must survive this process, and a transaction of PostgreSQL does not until it commits";
    else if (config->backend == HF_BACKEND_LMDB && config->path[0] == '\0')
        what = "store.path is empty: the lmdb store needs a directory";
    else if (config->dsn[0] && config->dsn_file[0])
        what = "store.dsn and store.dsn_file are both set: one of them must go";
    else if (config->cluster_addresses.n > 0 && !listens_everywhere(config))
        what = "server.listen and cluster.addresses are both set: leave out server.listen, the "
               "service is served at its own addresses";
    else if (strspn(config->service, NAME_LETTERS) != strlen(config->service) ||
             strlen(config->service) > HF_CONFIG_SERVICE_MAX)
        what =
            "cluster.service must be of at most 32 small letters, digits, - and _, because files "
            "and database schemas are named after it";
    else if (config->cluster_hook[0] && config->cluster_addresses.n == 0)
        what = "cluster.hook is set, but no cluster.addresses that it could take";
    if (means_every_host(config->name)) {
        hf_format(error, HF_CONFIG_ERROR_MAX,
                  "server.name is \"%.60s\", from the configuration or as the name of this host: a "
                  "client would take our restart notice for one about itself, and reclaim nothing. "
                  "Set server.name to the name that clients mount us by",
                  config->name);
        return HF_EINVAL;
    }
    if (!what)
        return 0;
    hf_format(error, HF_CONFIG_ERROR_MAX, "%s", what);
    return HF_EINVAL;
}

void hf_config_print(const struct hf_config *config, FILE *out)
{
    const char *section = "";

    for (size_t i = 0; i < hf_config_n_keys; i++) {
        const struct hf_config_key *key = &hf_config_keys[i];

        if (strcmp(section, key->section) != 0)
            (void)fprintf(out, "%s[%s]\n", i ? "\n" : "", section = key->section);
        if (key->comment || key->choices)
            (void)fprintf(out, "; %s%s%s\n", key->choices ? key->choices : "",
                          key->choices && key->comment ? "; " : "",
                          key->comment ? key->comment : "");
        (void)fprintf(out, "%s=", key->name);
        hf_config_value_print(config, key, out);
        (void)fputc('\n', out);
    }
    for (unsigned i = 0; i < config->n_export_rules; i++) {
        const struct hf_config_export_rule *rule = &config->export_rules[i];

        (void)fprintf(out, "\n[share %s]\nfh=%u:", rule->name, rule->offset);
        for (unsigned b = 0; b < rule->len; b++)
            (void)fprintf(out, "%02x", rule->bytes[b]);
        (void)fputc('\n', out);
    }
    for (unsigned i = 0; i < config->n_clients; i++) {
        const struct hf_config_client *client = &config->clients[i];
        char text[HF_NETWORK_TEXT_MAX];

        (void)fprintf(out, "\n[client %s]\n", client->name);
        for (unsigned n = 0; n < client->addresses.n; n++)
            (void)fprintf(out, "%s%s", n ? "," : "addresses=",
                          hf_network_format(&client->addresses.list[n], text));
        (void)fprintf(out, "%sat_once=%s\n", client->addresses.n > 0 ? "\n" : "",
                      client->at_once ? "yes" : "no");
    }
}

/* ---- reload ---- */

static size_t field_size(const struct hf_config_key *key)
{
    switch (key->type) {
    case TEXT:
    case PATH:
    case NAME:
    case ENDPOINT:
        return HF_CONFIG_TEXT_MAX;
    case ADDRESSES:
        return sizeof(struct hf_config_addresses);
    case NETWORKS:
        return sizeof(struct hf_config_networks);
    case NUMBER:
    case CHOICE:
        return sizeof(uint32_t);
    }
    HF_UNREACHABLE();
}

/*
 * True if two configurations have the same value for a key. Comparing bytes is enough for numbers
 * and addresses, because both configurations were zeroed before their values were set. A text is
 * compared up to its NUL, because the rest of a longer default may follow.
 */
static bool is_same(const struct hf_config *a, const struct hf_config *b,
                    const struct hf_config_key *key)
{
    const void *x = hf_config_field_const(a, key);
    const void *y = hf_config_field_const(b, key);

    if (key->type == TEXT || key->type == PATH || key->type == NAME || key->type == ENDPOINT)
        return strcmp(x, y) == 0;
    return memcmp(x, y, field_size(key)) == 0;
}

void hf_config_reload(struct hf_config *config, const struct hf_config *fresh,
                      void (*report)(const char *key))
{
    char name[64];

    for (size_t i = 0; i < hf_config_n_keys; i++) {
        const struct hf_config_key *key = &hf_config_keys[i];

        if (is_same(config, fresh, key))
            continue;
        if (key->live) {
            memcpy(hf_config_field(config, key), hf_config_field_const(fresh, key),
                   field_size(key));
        } else {
            hf_format(name, sizeof(name), "%s.%s", key->section, key->name);
            report(name);
        }
    }
    if (config->n_export_rules != fresh->n_export_rules ||
        memcmp(config->export_rules, fresh->export_rules, sizeof(config->export_rules)) != 0)
        report("share");
    if (config->n_clients != fresh->n_clients ||
        memcmp(config->clients, fresh->clients, sizeof(config->clients)) != 0)
        report("client");
}
