/*
 * What the tests of the store share: a scratch directory, records made from a number, batches made
 * from a seed, and a digest of a store's contents that does not depend on their order. With these
 * two stores can be compared, and a parent process knows what its child wrote.
 */
#ifndef HF_TESTS_STORE_FIXTURE_H
#define HF_TESTS_STORE_FIXTURE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "core/record.h"
#include "store/store.h"

/* Creates an empty directory under TMPDIR (base NULL) or under base. A failure ends the test. */
void scratch_make(char path[PATH_MAX], const char *base);
void scratch_remove(const char *path);

/* A small random number generator that gives the same numbers on every machine. */
struct dice {
    uint64_t state;
};

uint64_t dice_roll(struct dice *dice);
uint64_t dice_below(struct dice *dice, uint64_t limit);

/* Makes a record in which every field depends on id and salt. Names hold hostile bytes. */
struct hf_record_client make_client(uint64_t id, uint64_t salt, uint8_t room[HF_NAME_MAX]);
struct hf_record_lock make_lock(uint64_t id, uint64_t salt, uint8_t room[HF_FH_MAX]);

enum { STORY_IDS = 400 }; /* the number of record ids in a story */

/* Makes batch number seq of a story: puts and deletes of clients, locks and the server's record. */
void story_batch(uint64_t seed, uint64_t seq, struct hf_batch *out);

struct digest {
    uint64_t sum;
    size_t count;
};

/*
 * Computes the digest of everything in the store; also checks that each record decodes, and the
 * order of the load.
 */
int store_digest(struct hf_store *store, struct digest *out);

/* Prints a message on standard error and exits, for failures of what is not under test. */
_Noreturn void give_up(const char *what);

#define MUST(cond) ((cond) ? (void)0 : give_up(#cond))

/* An hf_store_visit that ignores records, for a walk whose result alone matters. */
int ignore_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record);

#endif
