/* Makes a core as the configuration wants it, without records, for a term that waits, or to be
 * loaded (loading.h). */
#ifndef HF_DAEMON_NEW_CORE_H
#define HF_DAEMON_NEW_CORE_H

#include "base/hash.h"
#include "core/core.h"
#include "daemon/config.h"
#include "store/lease.h"

/* How many exports of other services the core can know, to refuse locks there (HA-09). */
enum { HF_FOREIGN_EXPORTS_MAX = 256 };

/* The export rules of a core, what they point to, and the clients that the operator vouches for. */
struct hf_export_rules {
    struct hf_export_rule list[HF_CONFIG_EXPORT_RULES_MAX + HF_FOREIGN_EXPORTS_MAX];
    unsigned n_own;
    unsigned n_foreign;
    struct hf_store_export foreign[HF_FOREIGN_EXPORTS_MAX];
    struct hf_vouch vouches[HF_CONFIG_CLIENTS_MAX];
};

/* Tells the operator what the configuration will cost, once the limit of open files is raised. */
void hf_new_core_warn(const struct hf_config *config);

struct hf_limits hf_new_core_limits(const struct hf_config *config);

/* Returns the core's configuration, except for the export rules. It is called on the loop thread,
 * which changes the configuration at a reload. */
struct hf_core_config hf_new_core_config(const struct hf_config *config,
                                         const struct hf_hash_key *hash_key);

/* Makes the core, on any thread: it reads only those parts of config that no reload changes. rules
 * has the foreign exports, and must outlive the core. NULL: out of memory. */
struct hf_core *hf_new_core(const struct hf_config *config, const struct hf_core_config *wanted,
                            struct hf_export_rules *rules);

#endif
