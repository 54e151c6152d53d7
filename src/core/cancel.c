/*
 * CANCEL: the waiting request of that owner, file, range and mode is taken back. When nothing waits
 * it is GRANTED all the same, unless the owner holds the lock already: DENIED, which a client takes
 * to mean that it owns it (PROTOCOL, "Other clients").
 */
#include "core/parts.h"

static struct hf_answer take_back(struct hf_core *core, struct hf_now now,
                                  const struct hf_subject *s, const struct hf_want *want)
{
    struct hf_waiter *waiter = hf_waiter_find(s->file, want);

    (void)now;
    if (waiter && !waiter->granting) {
        hf_waiter_remove(core, waiter);
        return (struct hf_answer){HF_STAT_GRANTED};
    }
    if (hf_held_covers(s->file, want, false))
        return (struct hf_answer){HF_STAT_DENIED, s->file->seq};
    return (struct hf_answer){HF_STAT_GRANTED, s->file->seq};
}

struct hf_answer hf_core_cancel(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                                const struct hf_lock_args *args)
{
    return hf_request_about(core, now, peer, args, take_back);
}
