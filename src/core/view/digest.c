/*
 * A digest of registered clients and durable locks, to compare before and after a restart: the sum
 * of the hashes of their encoded records, which does not depend on their order. The server's own
 * record is left out, because each start changes it.
 */
#include "core/clients/clients.h"
#include "core/internal.h"
#include "core/table/table.h"

enum { RECORD_ROOM = 8192 /* more bytes than any record takes */ };

/* Serves as an allocator whose only memory is one record's room on the stack. */
static void *stack_resize(void *ctx, void *ptr, size_t size)
{
    (void)ptr;
    HF_ASSERT(size <= RECORD_ROOM);
    return ctx;
}

static void stack_release(void *ctx, void *ptr)
{
    (void)ctx;
    (void)ptr;
}

static uint64_t hash_and_clear(struct hf_buf *buf)
{
    uint64_t hash = hf_record_hash(hf_buf_view(buf));

    hf_buf_clear(buf);
    return hash;
}

static uint64_t digest_clients(const struct hf_core *core, struct hf_buf *buf)
{
    uint64_t sum = 0;

    hf_list_foreach (node, &core->clients->all) {
        const struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        struct hf_record_client record;
        if (!client->registered)
            continue;
        hf_client_record(client, &record);
        HF_ASSERT(hf_record_encode_client(&record, buf) == 0);
        sum += hash_and_clear(buf);
    }
    return sum;
}

static uint64_t digest_locks(const struct hf_core *core, struct hf_buf *buf)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < hf_slab_slots(&core->table->lock_slab); i++) {
        const struct hf_lock *lock = hf_slab_at(&core->table->lock_slab, i);
        struct hf_record_lock record;
        if (!lock || !lock->durable || !lock->held)
            continue;
        hf_lock_record(core, lock, &record);
        HF_ASSERT(hf_record_encode_lock(&record, buf) == 0);
        sum += hash_and_clear(buf);
    }
    return sum;
}

uint64_t hf_core_digest(const struct hf_core *core)
{
    uint8_t room[RECORD_ROOM];
    struct hf_alloc stack = {stack_resize, stack_release, room};
    struct hf_buf buf;

    hf_buf_init(&buf, &stack);
    return digest_clients(core, &buf) + digest_locks(core, &buf);
}
