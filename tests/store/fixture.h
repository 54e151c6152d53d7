/*
 * What the store's tests share: a scratch directory, records made from a number, batches made from
 * a seed, and a digest over a store's contents that does not depend on their order. With these two
 * stores can be compared at a glance, and a child process need not tell its parent what it wrote.
 */
#ifndef HF_TESTS_STORE_FIXTURE_H
#define HF_TESTS_STORE_FIXTURE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "core/record.h"
#include "store/store.h"

/* Makes an empty directory under TMPDIR (base NULL), or under base. Both stop the test on failure.
 */
void scratch_make(char path[PATH_MAX], const char *base);
void scratch_remove(const char *path);

/* A small generator of numbers, the same on every machine. */
struct dice {
    uint64_t state;
};

uint64_t dice_roll(struct dice *dice);
uint64_t dice_below(struct dice *dice, uint64_t limit);

/* A record in which every field depends on id and salt. Names hold hostile bytes. */
struct hf_record_client make_client(uint64_t id, uint64_t salt, uint8_t room[HF_NAME_MAX]);
struct hf_record_lock make_lock(uint64_t id, uint64_t salt, uint8_t room[HF_FH_MAX]);

enum { STORY_IDS = 400 }; /* records a story is about */

/* Batch number seq of a story: puts and deletes of clients, locks and the server's record. */
void story_batch(uint64_t seed, uint64_t seq, struct hf_batch *out);

struct digest {
    uint64_t sum;
    size_t count;
};

/* Of everything in the store; also checks that each record decodes, and the order of the load. */
int store_digest(struct hf_store *store, struct digest *out);

/* Complains on standard error and exits: the tests' answer to what is not under test. */
_Noreturn void give_up(const char *what);

#define MUST(cond) ((cond) ? (void)0 : give_up(#cond))

#endif
