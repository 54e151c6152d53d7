/* The store as the configuration names it. */
#ifndef HF_DAEMON_STORE_SETTINGS_H
#define HF_DAEMON_STORE_SETTINGS_H

#include "daemon/config.h"
#include "store/lease.h"
#include "store/store.h"

/* What a store with standbys must know, and the strings of its configuration. */
struct hf_store_settings {
    char dsn[HF_CONFIG_TEXT_MAX];
    struct hf_store_config store;
    struct hf_store_cluster cluster;
    struct hf_store_export exports[HF_CONFIG_EXPORT_RULES_MAX];
};

/*
 * The store that the configuration names. dsn is room for the connection string, which
 * store.dsn_file may hold. HF_EINVAL, with the reason, if that file cannot be used.
 */
int hf_store_config_from(const struct hf_config *config, char dsn[HF_CONFIG_TEXT_MAX],
                         struct hf_store_config *out, const char **reason);

/*
 * Fills settings, which point into themselves and into config, for a daemon of the service. On
 * failure the reason is in the log.
 */
int hf_store_settings_from(const struct hf_config *config, struct hf_store_settings *out);

#endif
