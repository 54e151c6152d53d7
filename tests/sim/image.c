#include "image.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void sim_image_init(struct sim_image *image)
{
    *image = (struct sim_image){0};
}

void sim_image_free(struct sim_image *image)
{
    for (unsigned i = 0; i < image->count; i++)
        free(image->records[i]);
    free(image->records);
    *image = (struct sim_image){0};
}

/* The place of the key: its record, or where it would have to be put in. */
static unsigned place_of(const struct sim_image *image, uint8_t kind, uint64_t id, bool *found)
{
    unsigned low = 0;
    unsigned high = image->count;

    while (low < high) {
        unsigned mid = (low + high) / 2;
        const struct sim_record *r = image->records[mid];

        if (r->kind < kind || (r->kind == kind && r->id < id))
            low = mid + 1;
        else
            high = mid;
    }
    *found =
        low < image->count && image->records[low]->kind == kind && image->records[low]->id == id;
    return low;
}

static struct sim_record *insert_at(struct sim_image *image, unsigned place)
{
    struct sim_record *record = malloc(sizeof(*record));

    if (image->count == image->size) {
        image->size = image->size ? image->size * 2 : 32;
        image->records = realloc(image->records, image->size * sizeof(image->records[0]));
    }
    HF_ASSERT(record && image->records);
    memmove(&image->records[place + 1], &image->records[place],
            (image->count - place) * sizeof(image->records[0]));
    image->records[place] = record;
    image->count++;
    return record;
}

static void put(struct sim_image *image, const struct hf_op *op)
{
    bool found;
    unsigned place = place_of(image, (uint8_t)op->kind, op->id, &found);
    struct sim_record *record = found ? image->records[place] : insert_at(image, place);

    HF_ASSERT(op->value.len <= SIM_RECORD_SIZE);
    record->kind = (uint8_t)op->kind;
    record->id = op->id;
    record->len = (uint16_t)op->value.len;
    memcpy(record->value, op->value.data, op->value.len);
    image->puts++;
}

static void drop(struct sim_image *image, const struct hf_op *op)
{
    bool found;
    unsigned place = place_of(image, (uint8_t)op->kind, op->id, &found);

    if (!found)
        return;
    free(image->records[place]);
    image->count--;
    memmove(&image->records[place], &image->records[place + 1],
            (image->count - place) * sizeof(image->records[0]));
    image->deletes++;
}

void sim_image_apply(struct sim_image *image, const struct hf_batch *batch)
{
    struct hf_op op;
    size_t cursor = 0;

    while (hf_batch_next(batch, &cursor, &op)) {
        if (op.type == HF_OP_PUT)
            put(image, &op);
        else
            drop(image, &op);
    }
}

const struct sim_record *sim_image_find(const struct sim_image *image, enum hf_record_kind kind,
                                        uint64_t id)
{
    bool found;
    unsigned place = place_of(image, (uint8_t)kind, id, &found);

    return found ? image->records[place] : NULL;
}
