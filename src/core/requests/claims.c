/* The kernel's results, and keepers that connect and disconnect (core/claim.h). */
#include "core/claims/claims.h"

#include "core/common/timer.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/wait/wait.h"

bool hf_core_claims_ready(const struct hf_core *core)
{
    return !core->config.coherent || hf_claims_are_ready(core);
}

uint64_t hf_core_asked(const struct hf_core *core)
{
    return core->claims->next_ask;
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
    hf_claims_begin(core);
    hf_waiters_wake_all(core);
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
    core->claims->serving = !hf_grace_is_strict(core);
    hf_claims_flush(core, sink, ctx);
    if (!hf_list_empty(&core->claims->due))
        hf_retry_later(core, now);
    hf_turn_end(core, now);
}
