/* The undo log. An entry owns what only the undo needs: a removed lock, a reference to a client,
 * ... */
#include "core/durable/private.h"
#include "core/internal.h"

enum { ROOM_FIRST = 64 };

int hf_undo_reserve(struct hf_core *core)
{
    struct hf_undo_log *log = &core->durable->undos[core->durable->gathering];
    size_t room;
    void *entries;

    if (log->n < log->room)
        return 0;
    room = log->room ? log->room * 2 : ROOM_FIRST;
    entries = hf_realloc(core->alloc, log->entries, room * sizeof(log->entries[0]));
    if (!entries)
        return HF_ENOMEM;
    log->entries = entries;
    log->room = room;
    return 0;
}

void hf_undo_push(struct hf_core *core, struct hf_undo entry)
{
    struct hf_undo_log *log = &core->durable->undos[core->durable->gathering];

    HF_ASSERT(log->n < log->room);
    log->entries[log->n++] = entry;
}

void hf_undo_revert(struct hf_core *core, struct hf_undo_log *log, size_t from)
{
    HF_ASSERT(from <= log->n);
    while (log->n > from) {
        const struct hf_undo *entry = &log->entries[--log->n];
        entry->ops->revert(core, entry);
    }
}

void hf_undo_keep(struct hf_core *core, struct hf_undo_log *log, size_t from)
{
    for (size_t i = from; i < log->n; i++) {
        const struct hf_undo *entry = &log->entries[i];
        if (entry->ops->keep)
            entry->ops->keep(core, entry);
    }
    log->n = from;
}
