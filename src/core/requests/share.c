/*
 * SHARE and UNSHARE: DOS open modes. A share has an access that it wants and a mode that it denies
 * to others; two shares conflict if one wants what the other denies. Shares and byte-range locks do
 * not affect each other. Shares are neither durable nor monitored, so a reclaim in grace is only
 * checked against the shares that were reclaimed before it. With config.continues shares are
 * recorded, and answers wait for their records; but a failed commit undoes no share.
 */
#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/table/table.h"

static enum hf_stat place(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                          const struct hf_share_args *args)
{
    struct hf_share *share = hf_share_find(core, file, client, args->oh);

    if (share && hf_share_is_releasing(share)) {
        hf_share_drop(core, share);
        share = NULL;
    }
    if (share && share->mode == args->mode && share->access == args->access) {
        hf_share_renew(core, share);
        return HF_STAT_GRANTED;
    }
    if (args->reclaim && !core->recovery->grace.active)
        return HF_STAT_DENIED_GRACE_PERIOD;
    if (hf_share_conflicts(file, share, args->mode, args->access))
        return HF_STAT_DENIED;
    if (!share && hf_limit_one(core, client, file) < 0)
        return HF_STAT_DENIED_NOLOCKS;
    if (!share)
        share = hf_share_add(core, client, file, args->oh);
    if (!share) {
        core->counters.out_of_memory++;
        return HF_STAT_DENIED_NOLOCKS;
    }
    hf_share_set(core, share, args->mode, args->access);
    hf_share_renew(core, share);
    return HF_STAT_GRANTED;
}

static bool is_valid(const struct hf_peer *peer, const struct hf_share_args *args)
{
    return peer->name.len <= HF_NAME_MAX && args->fh.len <= HF_FH_MAX &&
           args->oh.len <= HF_OH_MAX && args->mode < HF_SHARE_MODES &&
           args->access < HF_SHARE_MODES;
}

struct hf_answer hf_core_share(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                               const struct hf_share_args *args)
{
    struct hf_answer answer = {HF_STAT_DENIED_NOLOCKS};
    struct hf_client *client;
    struct hf_file *file;
    bool pending;

    if (!is_valid(peer, args)) {
        answer.stat = HF_STAT_FAILED;
        return hf_request_answer(core, now, answer);
    }
    /* A failed commit undoes no share, so none is given before the server's record is durable:
     * until then every answer could become a refusal. */
    if ((core->recovery->grace.active && !args->reclaim) || hf_durable_is_beginning(core)) {
        answer.stat = HF_STAT_DENIED_GRACE_PERIOD;
        return hf_request_answer(core, now, answer);
    }
    client = hf_request_client(core, now, peer, &pending);
    if (pending) {
        answer.stat = HF_STAT_DENIED_GRACE_PERIOD;
        return hf_request_answer(core, now, answer);
    }
    client = hf_client_get_nlm(core, now, peer, client);
    if (!client)
        return hf_request_answer(core, now, answer);
    file = hf_file_get(core, args->fh);
    if (file) {
        answer.stat = place(core, client, file, args);
        answer.ticket.seq = hf_durable_behind_seq(core);
        hf_file_unref(core, file);
    }
    hf_client_unref(core, client);
    return hf_request_answer(core, now, answer);
}

struct hf_answer hf_core_unshare(struct hf_core *core, struct hf_now now,
                                 const struct hf_peer *peer, const struct hf_share_args *args)
{
    struct hf_answer answer = {HF_STAT_GRANTED};
    struct hf_client *client = NULL;
    struct hf_file *file;
    struct hf_share *share;
    bool pending = false;

    if (is_valid(peer, args))
        client = hf_request_client(core, now, peer, &pending);
    if (pending) {
        answer.stat = HF_STAT_DENIED_GRACE_PERIOD;
        return hf_request_answer(core, now, answer);
    }
    file = client ? hf_file_find(core, args->fh) : NULL;
    share = file ? hf_share_find(core, file, client, args->oh) : NULL;
    if (share) {
        client->refs++;
        hf_share_drop(core, share);
        hf_client_idle(core, now, client);
        hf_client_unref(core, client);
    }
    answer.ticket.seq = hf_durable_behind_seq(core);
    return hf_request_answer(core, now, answer);
}
