/*
 * What the administration interface asks of the daemon (admin/admin.h), on the engine: looks, and
 * changes that are answered when they are durable. Where it is served follows the configuration.
 */
#ifndef HF_DAEMON_ADMIN_OPS_H
#define HF_DAEMON_ADMIN_OPS_H

#include "admin/admin.h"
#include "daemon/check.h"
#include "daemon/config.h"
#include "daemon/engine.h"
#include "rpc/server.h"

struct hf_administration {
    struct hf_engine *engine;
    const struct hf_rpc_server *server;
    struct hf_checks checks;
    struct hf_admin *admin; /* NULL: off */
    char socket[HF_CONFIG_TEXT_MAX + 16];
};

/* True if the configuration wants it at all; if not, nothing is timed either (ADM-02). */
bool hf_administration_wanted(const struct hf_config *config);

/* Engine, server and config outlive it. */
int hf_administration_open(struct hf_administration *a, struct hf_engine *engine,
                           const struct hf_rpc_server *server, const struct hf_config *config);
void hf_administration_reload(struct hf_administration *a);

/* After the engine was stopped: nothing waits for a commit then. */
void hf_administration_close(struct hf_administration *a);

#endif
