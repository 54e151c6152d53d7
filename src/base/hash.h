/*
 * Keyed hashes for what comes from the network: without the key, which is drawn at start, nobody
 * can choose names or file handles that all fall into one bucket.
 *
 * hf_hash() is for tables in memory. It is built like wyhash (Wang Yi): sixteen bytes are masked
 * with the key and with what came before, and multiplied to 128 bits, whose halves are folded
 * into 64. That is several times as fast as SipHash on a request's few hundred bytes, and nobody
 * can aim it as long as its values stay in the process. They are others at each start: not to be
 * stored.
 *
 * hf_siphash() is for values that leave the process: what is written to disk, shown, or sent.
 * SipHash-1-3 (Aumasson and Bernstein).
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

uint64_t hf_siphash(const struct hf_hash_key *key, const void *data, size_t len);
uint64_t hf_siphash_u64(const struct hf_hash_key *key, uint64_t a, uint64_t b);

#endif
