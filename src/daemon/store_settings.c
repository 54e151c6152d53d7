#include "daemon/store_settings.h"

#include <string.h>

#include "base/assert.h"
#include "base/boot_id.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/text.h"

static const char *backend_name(uint32_t backend)
{
    static const char *const names[] = {"memory", "lmdb", "postgres"};

    HF_ASSERT(backend < HF_COUNT_OF(names));
    return names[backend];
}

int hf_store_config_from(const struct hf_config *config, char dsn[HF_CONFIG_TEXT_MAX],
                         struct hf_store_config *out, const char **reason)
{
    int rv = 0;

    hf_format(dsn, HF_CONFIG_TEXT_MAX, "%s", config->dsn);
    if (config->dsn_file[0])
        rv = hf_secret_read(config->dsn_file, dsn, HF_CONFIG_TEXT_MAX, reason);
    *out = (struct hf_store_config){
        .backend = backend_name(config->backend),
        .path = config->path,
        .dsn = dsn,
        .service = config->service,
        .unflushed = config->durable == HF_DURABLE_PROCESS,
    };
    /* On failure the id stays zero, which stands for an unknown boot, unlike any other. */
    (void)hf_boot_id_read(out->boot_id);
    return rv;
}

/* Copies the exports of the configuration, which this service claims in the store. */
static void take_exports(const struct hf_config *config, struct hf_store_settings *out)
{
    for (unsigned i = 0; i < config->n_export_rules; i++) {
        const struct hf_config_export_rule *rule = &config->export_rules[i];
        struct hf_store_export *export = &out->exports[i];

        hf_format(export->name, sizeof(export->name), "%s", rule->name);
        export->offset = rule->offset;
        export->len = rule->len;
        memcpy(export->bytes, rule->bytes, rule->len);
    }
}

int hf_store_settings_from(const struct hf_config *config, struct hf_store_settings *out)
{
    const char *reason;
    int rv;

    *out = (struct hf_store_settings){0};
    rv = hf_store_config_from(config, out->dsn, &out->store, &reason);
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot use store.dsn_file", HF_STR("file", config->dsn_file),
               HF_STR("reason", reason));
        return rv;
    }
    if (config->cluster_mode != HF_CLUSTER_STANDBY)
        return 0;
    take_exports(config, out);
    out->cluster = (struct hf_store_cluster){.node = config->node,
                                             .version = HF_VERSION,
                                             .require_sync = config->require_sync != 0,
                                             .exports = out->exports,
                                             .n_exports = config->n_export_rules};
    out->store.cluster = &out->cluster;
    /* The store gives up an attempt without an answer before a standby has waited long enough to
     * take the service: after a stall the owner can still renew its lease on a new connection in
     * time. */
    out->store.timeout_ms = config->lease_ms;
    return 0;
}
