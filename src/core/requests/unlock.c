/*
 * UNLOCK (NLM-02): releases whatever the owner holds in the range; then waiters for it are served.
 * Unlocking a range without locks is GRANTED. UNLOCK works during grace, too.
 *
 * A client forgets the lock whatever the answer is. So DENIED_NOLOCKS (no memory, or the peer has
 * cut its locks into too many) is not sent, and the client asks again (nlm/answer.c). Nor is
 * GRANTED sent before the callbacks that the UNLOCK has overtaken are over (nlm/callback.c).
 */
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/requests/requests.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

static struct hf_answer release(struct hf_core *core, struct hf_now now, const struct hf_subject *s,
                                const struct hf_want *want)
{
    struct hf_txn txn;

    if (hf_limit_unlock(core, s->file, want) < 0)
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    hf_txn_begin(&txn, core, now, &s->file->seq);
    if (hf_table_clear(&txn, s->file, s->owner, want->first, want->last) < 0) {
        hf_txn_abort(&txn);
        return (struct hf_answer){HF_STAT_DENIED_NOLOCKS};
    }
    hf_waiter_confirm_range(core, s->owner, s->file, want->first, want->last, false);
    return (struct hf_answer){HF_STAT_GRANTED, .ticket.seq = hf_txn_commit(&txn)};
}

struct hf_answer hf_core_unlock(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args)
{
    return hf_request_about(core, now, peer, args, release);
}
