/*
 * Writes all metrics of SPEC section 7, from the counters of all rooms. docs/reference/METRICS.md
 * explains each metric.
 */
#ifndef HF_DAEMON_METRICS_H
#define HF_DAEMON_METRICS_H

#include "admin/exposition.h"
#include "daemon/cluster.h"
#include "daemon/engine.h"
#include "rpc/server.h"

/* Writes all metrics but those of rpcbind. cluster is NULL in a service without standbys. */
void hf_metrics_expose(struct hf_engine *engine, const struct hf_rpc_counters *rpc,
                       const struct hf_cluster *cluster, struct hf_exposition *out);

/* Shows whether rpcbind sends clients to this daemon, and how often its registration was lost. */
void hf_metrics_expose_rpcbind(bool up, uint64_t lost, struct hf_exposition *out);

#endif
