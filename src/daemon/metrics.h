/* Every metric of SPEC section 7, from the counters of all rooms; docs/METRICS.md says what each
 * means. */
#ifndef HF_DAEMON_METRICS_H
#define HF_DAEMON_METRICS_H

#include "admin/admin.h"
#include "daemon/engine.h"
#include "rpc/server.h"

void hf_metrics_expose(struct hf_engine *engine, const struct hf_rpc_counters *rpc,
                       struct hf_exposition *out);

/* Sums of the same, for the page. */
void hf_metrics_totals(const struct hf_engine *engine, struct hf_admin_totals *out);

#endif
