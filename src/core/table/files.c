/* Files: found by hash, made when first needed, and deleted with their last reference. */
#include <string.h>

#include "core/internal.h"
#include "core/table/private.h"

/*
 * What a file is looked up by. A file keeps the handle by which it was locked first, and is found
 * by every handle that has the same identity (COH-05).
 */
struct file_key {
    const struct hf_core *core;
    struct hf_bytes fh, identity; /* the handle's identity is the handle itself for most files */
    uint8_t room[HF_IDENTITY_MAX];
};

static uint64_t make_key(const struct hf_core *core, struct hf_bytes fh, struct file_key *key)
{
    key->core = core;
    key->fh = fh;
    key->identity = core->config.identity ? core->config.identity(fh, key->room) : fh;
    return hf_hash(&core->config.hash_key, key->identity.data, key->identity.len);
}

static bool file_matches(const struct hf_refmap_node *node, const void *wanted)
{
    const struct hf_file *file = hf_container_of(node, struct hf_file, node);
    const struct file_key *key = wanted;
    uint8_t room[HF_IDENTITY_MAX];

    if (hf_bytes_equal(hf_file_fh(file), key->fh))
        return true;
    return key->identity.data != key->fh.data && file->fh_len == key->fh.len &&
           hf_bytes_equal(key->core->config.identity(hf_file_fh(file), room), key->identity);
}

uint64_t hf_file_hash(const struct hf_core *core, struct hf_bytes fh)
{
    struct file_key key;

    return make_key(core, fh, &key);
}

struct hf_bytes hf_file_fh(const struct hf_file *file)
{
    return hf_bytes(file->fh, file->fh_len);
}

static struct hf_file *file_find(const struct file_key *key, uint64_t hash)
{
    struct hf_refmap_node *node = hf_refmap_find(&key->core->table->files, hash, file_matches, key);

    return node ? hf_container_of(node, struct hf_file, node) : NULL;
}

struct hf_file *hf_file_find(const struct hf_core *core, struct hf_bytes fh)
{
    struct file_key key;
    uint64_t hash = make_key(core, fh, &key);

    return file_find(&key, hash);
}

/* Returns the index of the first export rule that fits the file handle; n_export_rules if none
 * does. */
static uint16_t export_of(const struct hf_core *core, struct hf_bytes fh)
{
    unsigned i;

    for (i = 0; i < core->config.n_export_rules; i++) {
        const struct hf_export_rule *rule = &core->config.export_rules[i];
        if (rule->offset <= fh.len && rule->match.len <= fh.len - rule->offset &&
            memcmp(fh.data + rule->offset, rule->match.data, rule->match.len) == 0)
            break;
    }
    return (uint16_t)i;
}

bool hf_file_is_foreign(const struct hf_core *core, struct hf_bytes fh,
                        struct hf_bytes *export_name)
{
    unsigned n_own = core->config.n_export_rules - core->config.n_foreign_rules;
    uint16_t rule = core->config.n_foreign_rules > 0 ? export_of(core, fh) : UINT16_MAX;

    if (rule < n_own || rule >= core->config.n_export_rules)
        return false;
    *export_name = core->config.export_rules[rule].name;
    return true;
}

struct hf_bytes hf_file_export_name(const struct hf_core *core, const struct hf_file *file)
{
    if (file->export_rule < core->config.n_export_rules)
        return core->config.export_rules[file->export_rule].name;
    return hf_bytes_str("default");
}

struct hf_file *hf_file_get(struct hf_core *core, struct hf_bytes fh)
{
    struct file_key key;
    uint64_t hash = make_key(core, fh, &key);
    struct hf_file *file = file_find(&key, hash);

    if (file) {
        file->refs++;
        return file;
    }
    file = hf_flex_take(&core->table->file_flex, fh.len);
    if (!file)
        return NULL;
    *file =
        (struct hf_file){.queue = &core->table->no_queue, .refs = 1, .fh_len = (uint16_t)fh.len};
    if (fh.len > 0)
        memcpy(file->fh, fh.data, fh.len);
    file->export_rule = export_of(core, fh);
    hf_refmap_insert(&core->table->files, &file->node, hash);
    return file;
}

void hf_file_queue_init(struct hf_file_queue *queue, struct hf_file *file)
{
    *queue = (struct hf_file_queue){.file = file};
    hf_list_init(&queue->waiters);
    hf_list_init(&queue->shares);
    hf_list_init(&queue->woken);
}

int hf_file_ensure_queue(struct hf_core *core, struct hf_file *file)
{
    struct hf_file_queue *queue;

    if (file->queue != &core->table->no_queue)
        return 0;
    queue = hf_slab_take(&core->table->queue_slab);
    if (!queue)
        return HF_ENOMEM;
    hf_file_queue_init(queue, file);
    file->queue = queue;
    return 0;
}

void hf_file_unref(struct hf_core *core, struct hf_file *file)
{
    HF_ASSERT(file->refs > 0);
    if (--file->refs > 0)
        return;
    HF_ASSERT(file->n_locks == 0 && file->queue->n_waiters == 0 &&
              hf_list_empty(&file->queue->shares));
    if (file->queue != &core->table->no_queue) {
        hf_list_remove(&file->queue->woken);
        hf_slab_give(&core->table->queue_slab, file->queue);
    }
    hf_refmap_remove(&core->table->files, &file->node);
    hf_flex_give(&core->table->file_flex, file, file->fh_len);
}

void hf_file_wake(struct hf_core *core, struct hf_file *file, uint64_t first, uint64_t last)
{
    struct hf_file_queue *queue = file->queue;

    if (queue->n_waiters == 0)
        return;
    if (!hf_list_linked(&queue->woken))
        hf_list_add_tail(&core->table->woken, &queue->woken);
    if (!queue->has_range || first < queue->woken_first)
        queue->woken_first = first;
    if (!queue->has_range || last > queue->woken_last)
        queue->woken_last = last;
    queue->has_range = true;
}
