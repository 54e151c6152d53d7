#include "support/records.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

void records_free(struct records *records)
{
    for (unsigned i = 0; i < records->count; i++)
        free(records->at[i]);
    free(records->at);
    *records = (struct records){0};
}

/* Returns the index of the record, or the index at which it would have to be inserted. */
static unsigned place_of(const struct records *records, enum hf_record_kind kind, uint64_t id,
                         bool *found)
{
    unsigned low = 0;
    unsigned high = records->count;

    while (low < high) {
        unsigned mid = (low + high) / 2;
        const struct stored_record *r = records->at[mid];

        if (r->kind < kind || (r->kind == kind && r->id < id))
            low = mid + 1;
        else
            high = mid;
    }
    *found = low < records->count && records->at[low]->kind == kind && records->at[low]->id == id;
    return low;
}

static void make_room(struct records *records, unsigned place)
{
    if (records->count == records->size) {
        records->size = records->size ? records->size * 2 : 32;
        records->at = realloc(records->at, records->size * sizeof(records->at[0]));
        HF_ASSERT(records->at);
    }
    memmove(&records->at[place + 1], &records->at[place],
            (records->count - place) * sizeof(records->at[0]));
    records->at[place] = NULL;
    records->count++;
}

static void put(struct records *records, const struct hf_op *op)
{
    bool found;
    unsigned place = place_of(records, op->kind, op->id, &found);
    struct stored_record *record = malloc(sizeof(*record) + op->value.len);

    HF_ASSERT(record);
    record->kind = op->kind;
    record->id = op->id;
    record->len = op->value.len;
    memcpy(record->value, op->value.data, op->value.len);
    if (!found)
        make_room(records, place);
    free(records->at[place]);
    records->at[place] = record;
}

void records_delete(struct records *records, enum hf_record_kind kind, uint64_t id)
{
    bool found;
    unsigned place = place_of(records, kind, id, &found);

    if (!found)
        return;
    free(records->at[place]);
    records->count--;
    memmove(&records->at[place], &records->at[place + 1],
            (records->count - place) * sizeof(records->at[0]));
}

void records_apply(struct records *records, const struct hf_batch *batch)
{
    struct hf_op op;
    size_t cursor = 0;

    while (hf_batch_next(batch, &cursor, &op)) {
        if (op.type == HF_OP_PUT)
            put(records, &op);
        else
            records_delete(records, op.kind, op.id);
    }
}

const struct stored_record *records_find(const struct records *records, enum hf_record_kind kind,
                                         uint64_t id)
{
    bool found;
    unsigned place = place_of(records, kind, id, &found);

    return found ? records->at[place] : NULL;
}

size_t records_count(const struct records *records, enum hf_record_kind kind)
{
    size_t n = 0;

    for (unsigned i = 0; i < records->count; i++)
        n += records->at[i]->kind == kind;
    return n;
}
