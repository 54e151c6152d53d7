/* The lock table as a whole: made and deleted here. */
#include "core/internal.h"
#include "core/table/private.h"

int hf_table_init(struct hf_core *core)
{
    struct hf_table *table = core->table;

    table->highest = core->config.limits;
    hf_list_init(&table->woken);
    hf_list_init(&table->review);
    hf_list_init(&table->no_waiting.waiters);
    hf_file_queue_init(&table->no_queue, NULL);
    hf_slab_init(&table->lock_slab, core->alloc, sizeof(struct hf_lock));
    hf_slab_init(&table->share_slab, core->alloc, sizeof(struct hf_share));
    hf_slab_init(&table->waiting_slab, core->alloc, sizeof(struct hf_waiting));
    hf_slab_init(&table->queue_slab, core->alloc, sizeof(struct hf_file_queue));
    hf_flex_init(&table->owner_flex, core->alloc, offsetof(struct hf_owner, oh));
    hf_flex_init(&table->file_flex, core->alloc, offsetof(struct hf_file, fh));
    if (hf_refmap_init(&table->owners, core->alloc) < 0 ||
        hf_refmap_init(&table->files, core->alloc) < 0 ||
        hf_map_init(&table->shares, core->alloc) < 0)
        return HF_ENOMEM;
    return 0;
}

void hf_table_free(struct hf_core *core)
{
    struct hf_table *table = core->table;

    hf_refmap_free(&table->owners);
    hf_refmap_free(&table->files);
    hf_map_free(&table->shares);
    hf_slab_free(&table->lock_slab);
    hf_slab_free(&table->share_slab);
    hf_slab_free(&table->waiting_slab);
    hf_slab_free(&table->queue_slab);
    hf_flex_free(&table->owner_flex);
    hf_flex_free(&table->file_flex);
}
