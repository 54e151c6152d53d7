/*
 * Keyed hash for tables whose keys come from the network. SipHash-1-3 (Aumasson and Bernstein):
 * without the key, which is drawn at start, nobody can choose names or file handles that all fall
 * into one bucket.
 */
#ifndef HF_BASE_HASH_H
#define HF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hf_hash_key {
    uint64_t k0;
    uint64_t k1;
};

uint64_t hf_hash(const struct hf_hash_key *key, const void *data, size_t len);

/* The same for a number, or for a hash joined with a further part of a composite key. */
uint64_t hf_hash_u64(const struct hf_hash_key *key, uint64_t a, uint64_t b);

#endif
