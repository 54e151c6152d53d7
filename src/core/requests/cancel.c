/*
 * CANCEL: removes the waiter of this owner, file, range and mode. (An exclusive waiter may stand
 * for a shared request as well. If it is cancelled, the client makes the shared request again when
 * it polls.) Without such a waiter the answer is GRANTED as well, unless the owner holds the lock
 * already: DENIED then tells the client that it owns the lock (docs/internals/PROTOCOL-NOTES.md,
 * "Other clients").
 */
#include "core/internal.h"
#include "core/requests/requests.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

static struct hf_answer take_back(struct hf_core *core, struct hf_now now,
                                  const struct hf_subject *s, const struct hf_want *want)
{
    struct hf_waiter *waiter = hf_waiter_find(core, s->file, want);

    (void)now;
    if (waiter && waiter->exclusive == want->exclusive) {
        hf_waiter_end(core, waiter, HF_END_CANCELLED);
        return (struct hf_answer){HF_STAT_GRANTED};
    }
    if (hf_table_covers(core, s->file, want, false))
        return (struct hf_answer){HF_STAT_DENIED, .ticket.seq = s->file->seq};
    return (struct hf_answer){HF_STAT_GRANTED, .ticket.seq = s->file->seq};
}

struct hf_answer hf_core_cancel(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args)
{
    return hf_request_about(core, now, peer, args, take_back);
}
