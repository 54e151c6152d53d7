/* What all lock requests begin and end with: client, owner and file; the answer and its seq. */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/common/range.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

enum hf_stat hf_request_check(const struct hf_peer *peer, const struct hf_lock_args *args,
                              struct hf_range *range)
{
    if (peer->name.len > HF_NAME_MAX || args->fh.len > HF_FH_MAX || args->oh.len > HF_OH_MAX)
        return HF_STAT_FAILED;
    return hf_range_from_wire(args->offset, args->length, range) ? HF_STAT_GRANTED : HF_STAT_FBIG;
}

int hf_subject_get(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                   const struct hf_lock_args *args, struct hf_client *found, struct hf_subject *out)
{
    out->client = hf_client_get_nlm(core, now, peer, found);
    if (!out->client)
        return HF_ENOMEM;
    out->owner = hf_owner_get(core, out->client, args->svid, args->oh);
    if (!out->owner)
        goto no_owner;
    out->file = hf_file_get(core, args->fh);
    if (!out->file)
        goto no_file;
    return 0;

no_file:
    hf_owner_unref(core, out->owner);
no_owner:
    hf_client_unref(core, out->client);
    return HF_ENOMEM;
}

int hf_subject_find(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                    const struct hf_lock_args *args, struct hf_subject *out)
{
    out->client = hf_client_find_nlm(core, peer);
    if (!out->client)
        return HF_ENOENT;
    out->owner = hf_owner_find(core, out->client, args->svid, args->oh);
    out->file = hf_file_find(core, args->fh);
    if (!out->owner || !out->file)
        return HF_ENOENT;
    out->client->last_seen_ms = now.wall_ms;
    out->client->refs++;
    out->owner->refs++;
    out->file->refs++;
    return 0;
}

void hf_subject_put(struct hf_core *core, struct hf_now now, const struct hf_subject *subject)
{
    hf_client_idle(core, now, subject->client);
    hf_file_unref(core, subject->file);
    hf_owner_unref(core, subject->owner);
    hf_client_unref(core, subject->client);
}

/*
 * Something was woken, which most requests do not do. If serving is unfinished, what this request
 * woke comes after what was woken before it, and ticks serve both.
 */
static bool is_to_serve(const struct hf_core *core)
{
    return !core->wait->unfinished &&
           (!hf_list_empty(&core->table->woken) || !hf_list_empty(&core->table->review));
}

void hf_turn_end(struct hf_core *core, struct hf_now now)
{
    if (is_to_serve(core) && !hf_grace_is_strict(core))
        hf_waiters_serve(core, now);
    hf_grace_review(core, now);
    if (is_to_serve(core) && !hf_grace_is_strict(core))
        hf_waiters_serve(core, now); /* the end of grace may have released locks */
}

struct hf_answer hf_request_answer(struct hf_core *core, struct hf_now now, struct hf_answer answer)
{
    HF_ASSERT(!core->recovery->stopped);
    hf_turn_end(core, now);
    if (core->config.fenced && (answer.stat == HF_STAT_GRANTED || answer.stat == HF_STAT_BLOCKED))
        answer.seq = hf_durable_gathering(core)->seq;
    answer.seq = hf_durable_answer_seq(core, answer.seq);
    return answer;
}

/* An UNLOCK must not overtake a LOCK of its owner that waits for the kernel. */
bool hf_request_waits_for_claim(struct hf_core *core, const struct hf_file *file,
                                struct hf_answer *answer)
{
    uint64_t round = core->config.coherent && file ? hf_claim_round_of(core, file) : 0;

    if (round == 0)
        return false;
    *answer = (struct hf_answer){.stat = HF_STAT_DENIED_GRACE_PERIOD, .claim = round};
    return true;
}

struct hf_answer hf_request_about(struct hf_core *core, struct hf_now now,
                                  const struct hf_peer *peer, const struct hf_lock_args *args,
                                  hf_request_action action)
{
    struct hf_answer answer = {HF_STAT_GRANTED};
    struct hf_range range;
    struct hf_subject s;

    answer.stat = hf_request_check(peer, args, &range);
    if (answer.stat == HF_STAT_GRANTED && core->config.coherent &&
        hf_request_waits_for_claim(core, hf_file_find(core, args->fh), &answer))
        return hf_request_answer(core, now, answer);
    if (answer.stat == HF_STAT_GRANTED && hf_subject_find(core, now, peer, args, &s) == 0) {
        struct hf_want want = {s.owner, range.first, range.last, args->exclusive, false};
        answer = action(core, now, &s, &want);
        hf_subject_put(core, now, &s);
    }
    return hf_request_answer(core, now, answer);
}
