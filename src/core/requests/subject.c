/*
 * What all lock requests share: finding client, owner and file at the beginning, and answer and seq
 * at the end.
 */
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

struct hf_client *hf_request_client(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, bool *pending)
{
    struct hf_client *client = hf_client_find_nlm(core, peer);

    *pending = false;
    if (!client && core->config.n_vouches > 0)
        client = hf_client_arrives(core, now, peer, pending);
    if (client)
        client->n_heard++;
    return client;
}

int hf_subject_find(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                    const struct hf_lock_args *args, struct hf_subject *out)
{
    bool pending;

    out->client = hf_request_client(core, now, peer, &pending);
    if (!out->client)
        return pending ? HF_EBUSY : HF_ENOENT;
    out->owner = hf_owner_find(core, out->client, args->svid, args->oh);
    out->file = hf_file_find(core, args->fh);
    if (!out->owner || !out->file)
        return HF_ENOENT;
    out->client->last_seen_ms = now.wall_ms;
    out->client->n_requests++;
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

/* True if waiters were woken or a wait may have closed a cycle, which few requests cause. False
 * while serving is unfinished: what a request woke comes after what was woken before, and ticks
 * serve both. */
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
    hf_epoch_review(core);
}

struct hf_answer hf_request_answer(struct hf_core *core, struct hf_now now, struct hf_answer answer)
{
    HF_ASSERT(!core->recovery->stopped);
    core->claims->asking = 0;
    hf_turn_end(core, now);
    /* A refusal, too, must show that we have the lease: a client gives up a lock whose reclaim is
     * refused, and no longer asks for one that the node with the lease may have given it. */
    if (core->config.fenced)
        answer.ticket.seq = hf_durable_gathering(core)->seq;
    answer.ticket.seq = hf_durable_answer_seq(core, answer.ticket.seq);
    return answer;
}

/* True if the client has crashed and lost everything since the request arrived. */
static bool is_of_the_dead(const struct hf_core *core, const struct hf_peer *peer,
                           const struct hf_lock_args *args)
{
    return args->asked != 0 && hf_claims_departed_at(core, &peer->addr) >= args->asked;
}

bool hf_request_waits(struct hf_core *core, const struct hf_peer *peer,
                      const struct hf_lock_args *args, const struct hf_range *range,
                      enum hf_claim_kind kind, struct hf_answer *answer)
{
    struct hf_want want = {NULL, range->first, range->last, args->exclusive, false};
    struct hf_file *file = hf_file_find(core, args->fh);
    uint64_t round = file ? hf_claim_round_of(core, file) : 0;
    struct hf_client *client;

    core->claims->asking = args->asked ? args->asked : core->claims->next_ask;
    if (is_of_the_dead(core, peer, args)) {
        *answer = (struct hf_answer){HF_STAT_DENIED_NOLOCKS, .silent = true};
        return true;
    }
    if (round == 0)
        return false;
    *answer = (struct hf_answer){.stat = HF_STAT_DENIED_GRACE_PERIOD, .claim = round};
    if (kind == HF_CLAIM_RAISE || kind == HF_CLAIM_TEST) {
        client = hf_client_find_nlm(core, peer);
        want.owner = client ? hf_owner_find(core, client, args->svid, args->oh) : NULL;
        hf_claim_foresee(core, file, &want, kind);
    }
    return true;
}

struct hf_answer hf_request_about(struct hf_core *core, struct hf_now now,
                                  const struct hf_peer *peer, const struct hf_lock_args *args,
                                  hf_request_action action)
{
    struct hf_answer answer = {HF_STAT_GRANTED};
    struct hf_range range;
    struct hf_subject s;
    int rv = HF_ENOENT;

    answer.stat = hf_request_check(peer, args, &range);
    if (answer.stat == HF_STAT_GRANTED && core->config.coherent &&
        hf_request_waits(core, peer, args, &range, HF_CLAIM_SET, &answer))
        return hf_request_answer(core, now, answer);
    if (answer.stat == HF_STAT_GRANTED)
        rv = hf_subject_find(core, now, peer, args, &s);
    if (rv == HF_EBUSY) {
        answer = (struct hf_answer){HF_STAT_DENIED_GRACE_PERIOD, .silent = true};
    } else if (rv == 0) {
        struct hf_want want = {s.owner, range.first, range.last, args->exclusive, false};
        answer = action(core, now, &s, &want);
        hf_subject_put(core, now, &s);
    } else if (core->config.coherent && answer.stat == HF_STAT_GRANTED) {
        /* This may repeat an UNLOCK whose owner went with its last lock; the kernel must have
         * released that lock before the answer leaves. */
        const struct hf_file *file = hf_file_find(core, args->fh);
        answer.ticket.seq = file ? file->seq : 0;
    }
    /* The answer waits for records that are written behind. After a crash of ours, a lock or a wait
     * that its client has given up must not come back: nothing would show that it is stale. */
    answer.ticket.seq = hf_seq_later(answer.ticket.seq, hf_durable_behind_seq(core));
    return hf_request_answer(core, now, answer);
}
