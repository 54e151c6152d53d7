/* TEST (NLM-04): would a LOCK be granted, and if not, which lock conflicts? Changes nothing. */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/range.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/table/table.h"

static struct hf_holder holder_of(const struct hf_lock *lock)
{
    return (struct hf_holder){
        .exclusive = lock->exclusive,
        .svid = hf_lock_owner(lock)->svid,
        .oh = hf_owner_oh(hf_lock_owner(lock)),
        .offset = lock->node.first,
        .length = hf_range_wire_length(lock->node.first, lock->node.last),
    };
}

static struct hf_holder holder_outside(const struct hf_claim_holder *holder)
{
    return (struct hf_holder){
        .exclusive = holder->exclusive,
        .svid = holder->pid,
        .offset = holder->first,
        .length = hf_range_wire_length(holder->first, holder->last),
    };
}

/* Asks the kernel for locks of holders outside NLM, because no lock of ours is in the way
 * (COH-12). */
static void ask_kernel(struct hf_core *core, const struct hf_lock_args *args,
                       const struct hf_want *want, struct hf_answer *answer)
{
    struct hf_claim_said said = {.say = HF_SAYS_NO_MEMORY, .stat = HF_STAT_DENIED_NOLOCKS};
    struct hf_file *file = hf_file_get(core, args->fh);

    if (file)
        said = hf_claim_want(core, file, want, HF_CLAIM_TEST);
    switch (said.say) {
    case HF_SAYS_YES:
        break;
    case HF_SAYS_WAIT:
        answer->stat = HF_STAT_DENIED_GRACE_PERIOD;
        answer->claim = hf_claim_park(core, file);
        break;
    case HF_SAYS_HELD:
        core->counters.outside_conflicts++;
        answer->stat = HF_STAT_DENIED;
        answer->holder = holder_outside(&said.holder);
        break;
    default:
        answer->stat = said.stat;
        break;
    }
    if (file)
        hf_file_unref(core, file);
}

struct hf_answer hf_core_test(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                              const struct hf_lock_args *args)
{
    struct hf_client *client;
    const struct hf_file *file;
    const struct hf_lock *lock;
    struct hf_answer answer = {HF_STAT_GRANTED};
    struct hf_range range;
    struct hf_want want = {.exclusive = args->exclusive};
    bool pending;

    answer.stat = hf_request_check(peer, args, &range);
    if (answer.stat != HF_STAT_GRANTED)
        return hf_request_answer(core, now, answer);
    if (core->recovery->grace.active && !core->config.durable_locks) {
        /* The locks that clients hold are unknown until they are reclaimed. */
        answer.stat = HF_STAT_DENIED_GRACE_PERIOD;
        return hf_request_answer(core, now, answer);
    }
    want.first = range.first;
    want.last = range.last;
    client = hf_request_client(core, now, peer, &pending);
    if (pending) {
        answer.stat = HF_STAT_DENIED_GRACE_PERIOD;
        return hf_request_answer(core, now, answer);
    }
    if (client) {
        client->last_seen_ms = now.wall_ms;
        want.owner = hf_owner_find(core, client, args->svid, args->oh);
    }
    file = hf_file_find(core, args->fh);
    lock = file ? hf_table_conflict(core, file, &want) : NULL;
    if (lock) {
        answer.stat = HF_STAT_DENIED;
        answer.holder = holder_of(lock);
    } else if (core->recovery->grace.active && core->recovery->locks_unknown) {
        /* Clients may hold locks that are not known yet. */
        answer.stat = HF_STAT_DENIED_GRACE_PERIOD;
    } else if (core->config.coherent &&
               !hf_request_waits(core, peer, args, &range, HF_CLAIM_TEST, &answer)) {
        ask_kernel(core, args, &want, &answer);
        file = hf_file_find(core, args->fh);
    }
    answer.ticket.seq = file ? file->seq : 0;
    return hf_request_answer(core, now, answer);
}
