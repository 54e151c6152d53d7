/* Owners: found by hash, made when first needed, and deleted with their last reference. */
#include "core/clients/clients.h"
#include "core/internal.h"
#include "core/table/private.h"

struct owner_key {
    const struct hf_client *client;
    int32_t svid;
    struct hf_bytes oh;
};

uint64_t hf_owner_hash(const struct hf_core *core, uint64_t client_id, int32_t svid,
                       struct hf_bytes oh)
{
    const struct hf_hash_key *hash_key = &core->config.hash_key;

    return hf_hash_u64(hash_key, hf_hash(hash_key, oh.data, oh.len) ^ (uint32_t)svid, client_id);
}

static bool owner_matches(const struct hf_refmap_node *node, const void *k)
{
    const struct hf_owner *owner = hf_container_of(node, struct hf_owner, node);
    const struct owner_key *key = k;

    return owner->client == key->client && owner->svid == key->svid &&
           hf_bytes_equal(hf_owner_oh(owner), key->oh);
}

struct hf_bytes hf_owner_oh(const struct hf_owner *owner)
{
    return hf_bytes(owner->oh, owner->oh_len);
}

static struct hf_owner *owner_find(struct hf_core *core, const struct owner_key *key, uint64_t hash)
{
    struct hf_refmap_node *node = hf_refmap_find(&core->table->owners, hash, owner_matches, key);

    return node ? hf_container_of(node, struct hf_owner, node) : NULL;
}

struct hf_owner *hf_owner_find(struct hf_core *core, struct hf_client *client, int32_t svid,
                               struct hf_bytes oh)
{
    struct owner_key key = {client, svid, oh};

    return owner_find(core, &key, hf_owner_hash(core, client->id, svid, oh));
}

struct hf_owner *hf_owner_get(struct hf_core *core, struct hf_client *client, int32_t svid,
                              struct hf_bytes oh)
{
    struct owner_key key = {client, svid, oh};
    uint64_t hash = hf_owner_hash(core, client->id, svid, oh);
    struct hf_owner *owner = owner_find(core, &key, hash);

    if (owner) {
        owner->refs++;
        return owner;
    }
    owner = hf_flex_take(&core->table->owner_flex, oh.len);
    if (!owner)
        return NULL;
    *owner = (struct hf_owner){
        .client = client, .waiting = &core->table->no_waiting, .refs = 1, .svid = svid};
    owner->oh_len = (uint16_t)oh.len;
    if (oh.len > 0)
        memcpy(owner->oh, oh.data, oh.len);
    hf_reflist_add_tail(&client->owners, &owner->in_client);
    client->refs++;
    hf_refmap_insert(&core->table->owners, &owner->node, hash);
    return owner;
}

void hf_owner_unref(struct hf_core *core, struct hf_owner *owner)
{
    HF_ASSERT(owner->refs > 0);
    if (--owner->refs > 0)
        return;
    HF_ASSERT(!hf_owner_has_locks(owner) && hf_list_empty(&owner->waiting->waiters));
    if (owner->waiting != &core->table->no_waiting) {
        hf_list_remove(&owner->waiting->review);
        hf_slab_give(&core->table->waiting_slab, owner->waiting);
    }
    hf_refmap_remove(&core->table->owners, &owner->node);
    hf_reflist_remove(&owner->in_client);
    hf_client_unref(core, owner->client);
    hf_flex_give(&core->table->owner_flex, owner, owner->oh_len);
}

int hf_owner_ensure_waiting(struct hf_core *core, struct hf_owner *owner)
{
    struct hf_waiting *waiting;

    if (owner->waiting != &core->table->no_waiting)
        return 0;
    waiting = hf_slab_take(&core->table->waiting_slab);
    if (!waiting)
        return HF_ENOMEM;
    *waiting = (struct hf_waiting){.owner = owner};
    hf_list_init(&waiting->waiters);
    hf_list_init(&waiting->review);
    owner->waiting = waiting;
    return 0;
}

void hf_owner_review_later(struct hf_core *core, struct hf_owner *owner)
{
    struct hf_waiting *waiting = owner->waiting;

    if (!hf_list_empty(&waiting->waiters) && !hf_list_linked(&waiting->review))
        hf_list_add_tail(&core->table->review, &waiting->review);
}
