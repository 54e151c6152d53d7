/*
 * A store for tests of the core: records in memory, in the order in which a store loads them (the
 * server's record, clients, locks; each kind by id). A batch is applied whole, as a transaction
 * is; failures, delays and crashes around it are up to the test. Memory comes from malloc() and
 * running out of it ends the test.
 */
#ifndef HF_TESTS_RECORDS_H
#define HF_TESTS_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/record.h"

struct stored_record {
    enum hf_record_kind kind;
    uint64_t id;
    size_t len;
    uint8_t value[];
};

struct records {
    struct stored_record **at; /* the records, sorted by kind, then id */
    unsigned count;
    unsigned size;
};

/* A zeroed struct records is empty; records_free() empties it again. */
void records_free(struct records *records);
void records_apply(struct records *records, const struct hf_batch *batch);

/* Finds a record; NULL if there is none. */
const struct stored_record *records_find(const struct records *records, enum hf_record_kind kind,
                                         uint64_t id);

/* Deletes a record; does nothing if there is none. */
void records_delete(struct records *records, enum hf_record_kind kind, uint64_t id);

size_t records_count(const struct records *records, enum hf_record_kind kind);

static inline struct hf_bytes record_bytes(const struct stored_record *record)
{
    return hf_bytes(record->value, record->len);
}

#endif
