/*
 * UNLOCK (NLM-02): whatever the owner holds in the range goes, and who waited for it is served.
 * Unlocking nothing is GRANTED. In grace it works as at any time.
 */
#include "core/parts.h"

static struct hf_answer release(struct hf_core *core, struct hf_now now, const struct hf_subject *s,
                                const struct hf_want *want)
{
    struct hf_txn txn;

    if (hf_limit_unlock(core, s->file, want) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    hf_txn_begin(&txn, core, now, s->file);
    if (hf_held_clear(&txn, s->owner, want->first, want->last) < 0) {
        hf_txn_abort(&txn);
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    hf_waiter_confirm_range(core, s->owner, s->file, want->first, want->last);
    return (struct hf_answer){HF_STAT_GRANTED, hf_txn_commit(&txn)};
}

struct hf_answer hf_core_unlock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args)
{
    return hf_request_about(core, now, peer, args, release);
}
