/* Makes a core without records, as the configuration wants it: for a term that has not begun, or to
 * load records into (loading.h). */
#ifndef HF_DAEMON_NEW_CORE_H
#define HF_DAEMON_NEW_CORE_H

#include "base/hash.h"
#include "core/core.h"
#include "daemon/config.h"
#include "store/lease.h"

/* How many exports of other services a core can know, in order to refuse locks on them (HA-09). */
enum { HF_FOREIGN_EXPORTS_MAX = 256 };

/* The export rules of a core with the memory that they point to, and the clients that the operator
 * vouches for. */
struct hf_export_rules {
    struct hf_export_rule list[HF_CONFIG_EXPORT_RULES_MAX + HF_FOREIGN_EXPORTS_MAX];
    unsigned n_own;
    unsigned n_foreign;
    struct hf_store_export foreign[HF_FOREIGN_EXPORTS_MAX];
    struct hf_vouch vouches[HF_CONFIG_CLIENTS_MAX];
};

/* Warns the operator of limits that follow from the configuration; called after the limit of open
 * files is raised. */
void hf_new_core_warn(const struct hf_config *config);

struct hf_limits hf_new_core_limits(const struct hf_config *config);

/* Returns the core's configuration without the export rules. Called on the loop thread, because a
 * reload changes the daemon's configuration there. */
struct hf_core_config hf_new_core_config(const struct hf_config *config,
                                         const struct hf_hash_key *hash_key);

/* Makes a core, on any thread: it reads only the parts of config that a reload never changes. rules
 * contains the foreign exports, and must outlive the core. Returns NULL if memory runs out. */
struct hf_core *hf_new_core(const struct hf_config *config, const struct hf_core_config *wanted,
                            struct hf_export_rules *rules);

#endif
