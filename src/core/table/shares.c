/* Shares: reservations by SHARE. A share is found by file and owner, and a file counts its shares
 * by mode and access, so that neither a search nor a test for conflicts looks at other shares. */
#include <string.h>

#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/table/table.h"

struct share_key {
    const struct hf_file *file;
    const struct hf_client *client;
    struct hf_bytes oh;
};

static uint64_t share_hash(const struct hf_core *core, const struct share_key *key)
{
    const struct hf_hash_key *secret = &core->config.hash_key;

    return hf_hash_u64(secret, hf_hash(secret, key->oh.data, key->oh.len),
                       key->file->node.hash ^ key->client->id);
}

static bool share_matches(const struct hf_map_node *node, const void *ctx)
{
    const struct hf_share *share = hf_container_of(node, struct hf_share, node);
    const struct share_key *key = ctx;

    return share->file == key->file && share->client == key->client &&
           hf_bytes_equal(hf_bytes(share->oh, share->oh_len), key->oh);
}

struct hf_share *hf_share_find(const struct hf_core *core, const struct hf_file *file,
                               const struct hf_client *client, struct hf_bytes oh)
{
    const struct share_key key = {file, client, oh};
    struct hf_map_node *node =
        hf_map_find(&core->table->shares, share_hash(core, &key), share_matches, &key);

    core->table->work++;
    return node ? hf_container_of(node, struct hf_share, node) : NULL;
}

bool hf_share_conflicts(const struct hf_file *file, const struct hf_share *own, uint32_t mode,
                        uint32_t access)
{
    for (uint32_t m = 0; m < HF_SHARE_MODES; m++) {
        for (uint32_t a = 0; a < HF_SHARE_MODES; a++) {
            bool mine = own && own->mode == m && own->access == a;
            if (((m & access) || (a & mode)) && file->queue->n_shares_of[m][a] > mine)
                return true;
        }
    }
    return false;
}

static void set(struct hf_share *share, uint32_t mode, uint32_t access)
{
    struct hf_file_queue *queue = share->file->queue;

    queue->n_shares_of[share->mode][share->access]--;
    queue->n_shares_of[mode][access]++;
    share->mode = (uint8_t)mode;
    share->access = (uint8_t)access;
}

void hf_share_set(struct hf_core *core, struct hf_share *share, uint32_t mode, uint32_t access)
{
    set(share, mode, access);
    hf_behind_changed(core, &share->behind);
}

void hf_share_renew(struct hf_core *core, struct hf_share *share)
{
    if (share->life == share->client->lives.now)
        return;
    share->life = share->client->lives.now;
    hf_list_remove(&share->in_client);
    hf_list_add_tail(&share->client->shares, &share->in_client);
    hf_behind_changed(core, &share->behind);
}

static int put_record(struct hf_txn *txn, struct hf_behind *behind)
{
    const struct hf_share *share = hf_container_of(behind, struct hf_share, behind);
    struct hf_record_lock record = {
        .id = behind->id,
        .client_id = share->client->id,
        .export = hf_file_export_name(txn->core, share->file),
        .fh = hf_file_fh(share->file),
        .oh = hf_bytes(share->oh, share->oh_len),
        .epoch = txn->core->epoch,
        .extra = {.what = HF_RECORD_SHARED,
                  .life_id = hf_client_first_id(share->client, share->life),
                  .mode = share->mode,
                  .access = share->access},
    };

    return hf_client_register_behind(txn, share->client) < 0
               ? HF_ENOMEM
               : hf_batch_put_lock(hf_durable_gathering(txn->core), &record);
}

static void forget(struct hf_core *core, struct hf_behind *behind)
{
    if (behind->gone)
        hf_slab_give(&core->table->share_slab, hf_container_of(behind, struct hf_share, behind));
}

static const struct hf_behind_ops share_behind = {put_record, forget};

static struct hf_share *new_share(struct hf_core *core, struct hf_client *client,
                                  struct hf_file *file, struct hf_bytes oh, uint64_t id)
{
    struct hf_share *share;

    if (hf_file_ensure_queue(core, file) < 0)
        return NULL;
    share = hf_slab_take(&core->table->share_slab);
    if (!share)
        return NULL;
    *share = (struct hf_share){.id = id, .client = client, .file = file, .life = client->lives.now};
    hf_behind_init(&share->behind, &share_behind, id, false);
    share->oh = hf_malloc(core->alloc, oh.len + 1);
    if (!share->oh) {
        hf_slab_give(&core->table->share_slab, share);
        return NULL;
    }
    if (oh.len > 0)
        memcpy(share->oh, oh.data, oh.len);
    share->oh_len = (uint32_t)oh.len;
    hf_map_insert(&core->table->shares, &share->node,
                  share_hash(core, &(struct share_key){file, client, oh}));
    hf_list_add_tail(&file->queue->shares, &share->in_file);
    hf_list_add_tail(&client->shares, &share->in_client);
    client->refs++;
    file->refs++;
    client->n_shares++;
    client->host->n_held++;
    file->queue->n_shares++;
    file->queue->n_shares_of[0][0]++;
    core->table->n_shares++;
    return share;
}

struct hf_share *hf_share_add(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                              struct hf_bytes oh)
{
    return new_share(core, client, file, oh, hf_core_new_id(core));
}

/* Loads a share. A client's shares are loaded in the order of their ids, and must be linked in the
 * order of their lives, which may differ. */
int hf_share_load(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                  const struct hf_record_lock *record)
{
    struct hf_share *share = new_share(core, client, file, record->oh, record->id);
    struct hf_list *place;

    if (!share)
        return HF_ENOMEM;
    share->behind.stored = true;
    share->life = hf_client_life_of_id(client, record->extra.life_id);
    set(share, record->extra.mode, record->extra.access);
    hf_list_remove(&share->in_client);
    place = client->shares.prev;
    while (place != &client->shares &&
           hf_list_entry(place, struct hf_share, in_client)->life > share->life)
        place = place->prev;
    hf_list_add_after(place, &share->in_client);
    hf_limits_held(core, client, file);
    return 0;
}

void hf_share_drop(struct hf_core *core, struct hf_share *share)
{
    hf_map_remove(&core->table->shares, &share->node);
    hf_list_remove(&share->in_file);
    hf_list_remove(&share->in_client);
    share->client->n_shares--;
    share->client->host->n_held--;
    share->file->queue->n_shares--;
    share->file->queue->n_shares_of[share->mode][share->access]--;
    core->table->n_shares--;
    hf_file_unref(core, share->file);
    hf_client_unref(core, share->client);
    hf_free(core->alloc, share->oh);
    hf_behind_ended(core, &share->behind);
    if (!hf_behind_is_busy(&share->behind))
        hf_slab_give(&core->table->share_slab, share);
}
