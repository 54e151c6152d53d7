/*
 * Keyed hashes for input from the network. The key is drawn at random at the start of the process;
 * a client that does not know it cannot choose names or file handles that all fall into one bucket.
 *
 * hf_hash() is for tables in memory. It is built like wyhash (Wang Yi): sixteen bytes at a time are
 * masked with the key and with the state so far, multiplied to 128 bits, and the two halves are
 * folded into 64 bits. On the few hundred bytes of a request it is several times as fast as
 * SipHash. It resists attack only while its values stay inside the process; they differ at each
 * start, so they must not be stored.
 *
 * hf_siphash() is SipHash-1-3 (Aumasson and Bernstein), for values that are stored, shown or sent.
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

/* Hashes a number, or combines a hash with the next part of a composite key. */
uint64_t hf_hash_u64(const struct hf_hash_key *key, uint64_t a, uint64_t b);

uint64_t hf_siphash(const struct hf_hash_key *key, const void *data, size_t len);
uint64_t hf_siphash_u64(const struct hf_hash_key *key, uint64_t a, uint64_t b);

#endif
