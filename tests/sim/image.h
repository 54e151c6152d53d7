/*
 * What is on the simulated disk: records in key order, as a key-value store would list them. A
 * batch is applied whole or not at all (the stores' transactions); the faults around that (slow,
 * failing, full, unknown outcome, crash) are store.h's business.
 */
#ifndef HF_SIM_IMAGE_H
#define HF_SIM_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/record.h"

enum { SIM_RECORD_SIZE = 320 }; /* names and handles of simulated clients are short */

struct sim_record {
    uint8_t kind; /* enum hf_record_kind */
    uint16_t len;
    uint64_t id;
    uint8_t value[SIM_RECORD_SIZE];
};

struct sim_image {
    struct sim_record **records; /* sorted by kind, then id */
    unsigned count;
    unsigned size;
    uint64_t puts; /* operations that changed something, for the statistics */
    uint64_t deletes;
};

void sim_image_init(struct sim_image *image);
void sim_image_free(struct sim_image *image);
void sim_image_apply(struct sim_image *image, const struct hf_batch *batch);

/* NULL if there is no such record. */
const struct sim_record *sim_image_find(const struct sim_image *image, enum hf_record_kind kind,
                                        uint64_t id);

static inline struct hf_bytes sim_record_bytes(const struct sim_record *record)
{
    return hf_bytes(record->value, record->len);
}

#endif
