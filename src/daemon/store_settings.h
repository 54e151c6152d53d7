/* Makes the settings of the store that the daemon's configuration names. */
#ifndef HF_DAEMON_STORE_SETTINGS_H
#define HF_DAEMON_STORE_SETTINGS_H

#include "daemon/config.h"
#include "store/lease.h"
#include "store/store.h"

/* The settings of a store with standbys, and the strings to which they point. */
struct hf_store_settings {
    char dsn[HF_CONFIG_TEXT_MAX];
    struct hf_store_config store;
    struct hf_store_cluster cluster;
    struct hf_store_export exports[HF_CONFIG_EXPORT_RULES_MAX];
};

/*
 * Fills in the settings of the store that the configuration names. dsn is room for the connection
 * string, which may come from store.dsn_file. Returns HF_EINVAL, with the reason, if that file
 * cannot be used.
 */
int hf_store_config_from(const struct hf_config *config, char dsn[HF_CONFIG_TEXT_MAX],
                         struct hf_store_config *out, const char **reason);

/* Fills in the settings of a store with standbys; they contain pointers into themselves and into
 * config. On failure the reason is in the log. */
int hf_store_settings_from(const struct hf_config *config, struct hf_store_settings *out);

#endif
