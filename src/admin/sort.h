/*
 * Sorts a list in an order that the operator chose: it finds the first rows, and how many rows
 * there are in all.
 *
 * The caller looks at every row of the core's view once, in as many turns of the loop as it takes,
 * and hands each row that passes the filter to hf_sorter_add(). A heap keeps the best rows, each as
 * a fixed-size key and the slot in which the core has the row; the row itself is fetched again when
 * it is written, so memory does not grow with the length of rows, and the heap stays below
 * SORT_ROWS_MAX entries.
 */
#ifndef HF_ADMIN_SORT_H
#define HF_ADMIN_SORT_H

#include "admin/rows.h"

enum {
    SORT_KEY_SIZE = 64,    /* how many of its first bytes decide the order of a text */
    SORT_ROWS_MAX = 10000, /* the limit for the sum of offset and limit in a query */
};

struct sort_entry {
    /* Keys are compared byte by byte; rows with equal keys are ordered by slot. */
    uint8_t key[SORT_KEY_SIZE];
    uint64_t slot;
};

/* A column that a list can be ordered by. */
struct sort_column {
    const char *name;
    void (*key)(const struct row_context *context, const union row *row,
                uint8_t key[SORT_KEY_SIZE]);
};

/* Each table of columns ends with an entry that has no name. */
extern const struct sort_column HF_SORT_LOCKS[];
extern const struct sort_column HF_SORT_CLIENTS[];

struct sorter {
    const struct sort_column *column; /* the column to sort by; NULL: the list is not sorted */
    bool descending;
    size_t keep;    /* how many entries the sorter keeps at most */
    uint64_t total; /* how many rows were seen */
    struct sort_entry *entries;
    size_t count, capacity;
    size_t ordered; /* how many entries, at the end of the array, are in order */
};

/* Chooses the column from "NAME" or "-NAME"; false if the table has no such column. */
bool hf_sorter_choose(struct sorter *sorter, const struct sort_column *table, const char *text);

/* Adds a row to the sorter. Returns false when memory runs out. */
bool hf_sorter_add(struct sorter *sorter, const struct row_context *context, const union row *row,
                   uint64_t slot);

/* After the last row was added, puts up to max more entries in order; true when all entries are in
 * order. */
bool hf_sorter_order(struct sorter *sorter, size_t max);

void hf_sorter_free(struct sorter *sorter);

#endif
