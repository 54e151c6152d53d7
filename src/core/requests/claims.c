/* Results of the kernel, and keepers that come and go (core/claim.h). */
#include "core/claims/claims.h"

#include "core/common/timer.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/wait/wait.h"

/* All that ought to be held is: locks can be granted. */
static void review(struct hf_core *core)
{
    if (hf_claims_corrected(core))
        hf_waiters_wake_all(core);
}

bool hf_core_claims_ready(const struct hf_core *core)
{
    return !core->config.coherent || core->claims->state == HF_CLAIMS_READY;
}

void hf_core_claims_lost(struct hf_core *core, struct hf_now now)
{
    hf_claims_lost(core);
    hf_turn_end(core, now);
}

int hf_core_claims_listed(struct hf_core *core, struct hf_bytes fh, uint64_t first, uint64_t last,
                          bool exclusive)
{
    return hf_claims_listed(core, fh, first, last, exclusive);
}

void hf_core_claims_begin(struct hf_core *core, struct hf_now now)
{
    hf_claims_begin(core, core->recovery->grace.active &&
                              (core->recovery->locks_unknown || !core->config.durable_locks));
    review(core);
    hf_turn_end(core, now);
}

int hf_core_claim_done(struct hf_core *core, struct hf_now now,
                       const struct hf_claim_result *result)
{
    struct hf_claim_file *cf;
    int rv = hf_claims_result(core, now, result, &cf);

    if (rv < 0)
        return rv;
    if (cf)
        hf_locks_lost_outside(core, now, cf);
    hf_turn_end(core, now);
    return 0;
}

void hf_core_claims_flush(struct hf_core *core, struct hf_now now, hf_claim_sink sink, void *ctx)
{
    hf_claims_flush(core, now, sink, ctx);
    review(core);
    if (!hf_list_empty(&core->claims->due))
        hf_retry_later(core, now);
    hf_turn_end(core, now);
}
