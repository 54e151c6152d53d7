/*
 * Owners and files: found by hash, made when first needed, gone with their last reference. Both end
 * in bytes from the wire (owner handle, file handle), which are short in practice; those come from
 * slabs, so that a lock on a new file allocates nothing once warm.
 */
#include "core/parts.h"

void hf_flex_init(struct hf_flex *flex, const struct hf_alloc *alloc, size_t base)
{
    flex->base = base;
    for (size_t i = 0; i < HF_FLEX_SLABS; i++)
        hf_slab_init(&flex->slabs[i], alloc, base + i * HF_FLEX_STEP);
}

void hf_flex_free(struct hf_flex *flex)
{
    for (size_t i = 0; i < HF_FLEX_SLABS; i++)
        hf_slab_free(&flex->slabs[i]);
}

/* The slab for so many bytes; NULL: they are too many for any. */
static struct hf_slab *flex_slab(struct hf_flex *flex, size_t len)
{
    size_t i = (len + HF_FLEX_STEP - 1) / HF_FLEX_STEP;

    return i < HF_FLEX_SLABS ? &flex->slabs[i] : NULL;
}

static void *flex_take(struct hf_flex *flex, size_t len)
{
    struct hf_slab *slab = flex_slab(flex, len);

    return slab ? hf_slab_take(slab) : hf_malloc(flex->slabs[0].alloc, flex->base + len);
}

static void flex_give(struct hf_flex *flex, void *object, size_t len)
{
    struct hf_slab *slab = flex_slab(flex, len);

    if (slab)
        hf_slab_give(slab, object);
    else
        hf_free(flex->slabs[0].alloc, object);
}

struct owner_key {
    const struct hf_client *client;
    int32_t svid;
    struct hf_bytes oh;
};

static uint64_t owner_hash(const struct hf_core *core, const struct owner_key *key)
{
    const struct hf_hash_key *hash_key = &core->config.hash_key;
    uint64_t oh = hf_hash(hash_key, key->oh.data, key->oh.len);

    return hf_hash_u64(hash_key, oh ^ (uint32_t)key->svid, key->client->id);
}

static bool owner_matches(const struct hf_map_node *node, const void *k)
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
    struct hf_map_node *node = hf_map_find(&core->owners, hash, owner_matches, key);

    return node ? hf_container_of(node, struct hf_owner, node) : NULL;
}

struct hf_owner *hf_owner_find(struct hf_core *core, struct hf_client *client, int32_t svid,
                               struct hf_bytes oh)
{
    struct owner_key key = {client, svid, oh};

    return owner_find(core, &key, owner_hash(core, &key));
}

struct hf_owner *hf_owner_get(struct hf_core *core, struct hf_client *client, int32_t svid,
                              struct hf_bytes oh)
{
    struct owner_key key = {client, svid, oh};
    uint64_t hash = owner_hash(core, &key);
    struct hf_owner *owner = owner_find(core, &key, hash);

    if (owner) {
        owner->refs++;
        return owner;
    }
    owner = flex_take(&core->owner_flex, oh.len);
    if (!owner)
        return NULL;
    *owner =
        (struct hf_owner){.client = client, .waiting = &core->at_rest, .refs = 1, .svid = svid};
    owner->oh_len = (uint32_t)oh.len;
    if (oh.len > 0)
        memcpy(owner->oh, oh.data, oh.len);
    hf_list_init(&owner->locks);
    client->refs++;
    hf_map_insert(&core->owners, &owner->node, hash);
    return owner;
}

void hf_owner_unref(struct hf_core *core, struct hf_owner *owner)
{
    HF_ASSERT(owner->refs > 0);
    if (--owner->refs > 0)
        return;
    HF_ASSERT(owner->n_locks == 0 && hf_list_empty(&owner->waiting->waiters));
    if (owner->waiting != &core->at_rest)
        hf_slab_give(&core->waiting_slab, owner->waiting);
    hf_map_remove(&core->owners, &owner->node);
    hf_client_unref(core, owner->client);
    flex_give(&core->owner_flex, owner, owner->oh_len);
}

int hf_owner_waiting(struct hf_core *core, struct hf_owner *owner)
{
    struct hf_waiting *waiting;

    if (owner->waiting != &core->at_rest)
        return 0;
    waiting = hf_slab_take(&core->waiting_slab);
    if (!waiting)
        return HF_ENOMEM;
    *waiting = (struct hf_waiting){0};
    hf_list_init(&waiting->waiters);
    owner->waiting = waiting;
    return 0;
}

static bool file_matches(const struct hf_map_node *node, const void *key)
{
    const struct hf_file *file = hf_container_of(node, struct hf_file, node);

    return hf_bytes_equal(hf_file_fh(file), *(const struct hf_bytes *)key);
}

struct hf_bytes hf_file_fh(const struct hf_file *file)
{
    return hf_bytes(file->fh, file->fh_len);
}

static struct hf_file *file_find(const struct hf_core *core, struct hf_bytes fh, uint64_t hash)
{
    struct hf_map_node *node = hf_map_find(&core->files, hash, file_matches, &fh);

    return node ? hf_container_of(node, struct hf_file, node) : NULL;
}

struct hf_file *hf_file_find(const struct hf_core *core, struct hf_bytes fh)
{
    return file_find(core, fh, hf_hash(&core->config.hash_key, fh.data, fh.len));
}

/* Index of the first share rule that fits; n_shares for the default share. */
static uint16_t share_of(const struct hf_core *core, struct hf_bytes fh)
{
    unsigned i;

    for (i = 0; i < core->config.n_shares; i++) {
        const struct hf_share_rule *rule = &core->config.shares[i];
        if (rule->offset <= fh.len && rule->match.len <= fh.len - rule->offset &&
            memcmp(fh.data + rule->offset, rule->match.data, rule->match.len) == 0)
            break;
    }
    return (uint16_t)i;
}

struct hf_bytes hf_file_share_name(const struct hf_core *core, const struct hf_file *file)
{
    if (file->share < core->config.n_shares)
        return core->config.shares[file->share].name;
    return hf_bytes_str("default");
}

struct hf_file *hf_file_get(struct hf_core *core, struct hf_bytes fh)
{
    uint64_t hash = hf_hash(&core->config.hash_key, fh.data, fh.len);
    struct hf_file *file = file_find(core, fh, hash);

    if (file) {
        file->refs++;
        return file;
    }
    file = flex_take(&core->file_flex, fh.len);
    if (!file)
        return NULL;
    *file = (struct hf_file){.crowd = &core->nobody, .refs = 1, .fh_len = (uint16_t)fh.len};
    if (fh.len > 0)
        memcpy(file->fh, fh.data, fh.len);
    file->share = share_of(core, fh);
    hf_map_insert(&core->files, &file->node, hash);
    return file;
}

void hf_crowd_init(struct hf_crowd *crowd, struct hf_file *file)
{
    *crowd = (struct hf_crowd){.file = file};
    hf_list_init(&crowd->waiters);
    hf_list_init(&crowd->shares);
    hf_list_init(&crowd->woken);
}

int hf_file_crowd(struct hf_core *core, struct hf_file *file)
{
    struct hf_crowd *crowd;

    if (file->crowd != &core->nobody)
        return 0;
    crowd = hf_slab_take(&core->crowd_slab);
    if (!crowd)
        return HF_ENOMEM;
    hf_crowd_init(crowd, file);
    file->crowd = crowd;
    return 0;
}

void hf_file_unref(struct hf_core *core, struct hf_file *file)
{
    HF_ASSERT(file->refs > 0);
    if (--file->refs > 0)
        return;
    HF_ASSERT(file->n_locks == 0 && file->crowd->n_waiters == 0 &&
              hf_list_empty(&file->crowd->shares));
    if (file->crowd != &core->nobody) {
        hf_list_remove(&file->crowd->woken);
        hf_slab_give(&core->crowd_slab, file->crowd);
    }
    hf_map_remove(&core->files, &file->node);
    flex_give(&core->file_flex, file, file->fh_len);
}
