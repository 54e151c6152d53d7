/*
 * SHARE and UNSHARE: DOS open modes. Each has an access it wants and a mode it denies to others;
 * two fit if neither wants what the other denies. They do not meet byte-range locks. Not durable,
 * not monitored: a reclaim in grace cannot be checked against a record, only against what is there.
 */
#include "core/parts.h"

enum { MODE_MAX = 3 };

static bool same_owner(const struct hf_share *share, const struct hf_client *client,
                       struct hf_bytes oh)
{
    return share->client == client && hf_bytes_equal(hf_bytes(share->oh, share->oh_len), oh);
}

static struct hf_share *find(const struct hf_file *file, const struct hf_client *client,
                             struct hf_bytes oh)
{
    hf_list_foreach (node, &file->crowd->shares) {
        struct hf_share *share = hf_list_entry(node, struct hf_share, in_file);
        if (same_owner(share, client, oh))
            return share;
    }
    return NULL;
}

static bool conflicts(const struct hf_file *file, const struct hf_share *own,
                      const struct hf_share_args *args)
{
    hf_list_foreach (node, &file->crowd->shares) {
        const struct hf_share *share = hf_list_entry(node, struct hf_share, in_file);
        bool mine = own && share == own;
        if (!mine && ((share->mode & args->access) || (share->access & args->mode)))
            return true;
    }
    return false;
}

static struct hf_share *add(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                            struct hf_bytes oh)
{
    struct hf_share *share;

    if (hf_file_crowd(core, file) < 0)
        return NULL;
    share = hf_slab_take(&core->share_slab);
    if (!share)
        return NULL;
    *share = (struct hf_share){.id = hf_core_new_id(core), .client = client, .file = file};
    share->oh = hf_malloc(core->alloc, oh.len + 1);
    if (!share->oh) {
        hf_slab_give(&core->share_slab, share);
        return NULL;
    }
    if (oh.len > 0)
        memcpy(share->oh, oh.data, oh.len);
    share->oh_len = (uint32_t)oh.len;
    hf_list_add_tail(&file->crowd->shares, &share->in_file);
    hf_list_add_tail(&client->shares, &share->in_client);
    client->refs++;
    file->refs++;
    client->n_shares++;
    file->crowd->n_shares++;
    core->n_shares++;
    return share;
}

void hf_share_drop(struct hf_core *core, struct hf_share *share)
{
    hf_list_remove(&share->in_file);
    hf_list_remove(&share->in_client);
    share->client->n_shares--;
    share->file->crowd->n_shares--;
    core->n_shares--;
    hf_file_unref(core, share->file);
    hf_client_unref(core, share->client);
    hf_free(core->alloc, share->oh);
    hf_slab_give(&core->share_slab, share);
}

static enum hf_stat place(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                          const struct hf_share_args *args)
{
    struct hf_share *share = find(file, client, args->oh);

    if (share && share->mode == args->mode && share->access == args->access)
        return HF_STAT_GRANTED;
    if (args->reclaim && !core->grace.active)
        return HF_STAT_DENIED_GRACE_PERIOD;
    if (conflicts(file, share, args))
        return HF_STAT_DENIED;
    if (!share && hf_limit_one(core, client, file) < 0)
        return HF_STAT_DENIED_NOLOCKS;
    if (!share)
        share = add(core, client, file, args->oh);
    if (!share) {
        core->counters.out_of_memory++;
        return HF_STAT_DENIED_NOLOCKS;
    }
    share->mode = (uint8_t)args->mode;
    share->access = (uint8_t)args->access;
    return HF_STAT_GRANTED;
}

static bool makes_sense(const struct hf_peer *peer, const struct hf_share_args *args)
{
    return peer->name.len <= HF_NAME_MAX && args->fh.len <= HF_FH_MAX &&
           args->oh.len <= HF_OH_MAX && args->mode <= MODE_MAX && args->access <= MODE_MAX;
}

struct hf_answer hf_core_share(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                               const struct hf_share_args *args)
{
    struct hf_answer answer = {HF_STAT_DENIED_NOLOCKS};
    struct hf_client *client;
    struct hf_file *file;

    if (!makes_sense(peer, args)) {
        answer.stat = HF_STAT_FAILED;
        return hf_request_answer(core, now, answer);
    }
    if (core->grace.active && !args->reclaim) {
        answer.stat = HF_STAT_DENIED_GRACE_PERIOD;
        return hf_request_answer(core, now, answer);
    }
    client = hf_client_get_nlm(core, now, peer, hf_client_find_nlm(core, peer));
    if (!client)
        return hf_request_answer(core, now, answer);
    file = hf_file_get(core, args->fh);
    if (file) {
        answer.stat = place(core, client, file, args);
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

    if (makes_sense(peer, args))
        client = hf_client_find_nlm(core, peer);
    file = client ? hf_file_find(core, args->fh) : NULL;
    share = file ? find(file, client, args->oh) : NULL;
    if (share) {
        client->refs++;
        hf_share_drop(core, share);
        hf_client_idle(core, now, client);
        hf_client_unref(core, client);
    }
    return hf_request_answer(core, now, answer);
}
