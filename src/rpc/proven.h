/*
 * The addresses that have proved lately that packets from them are not forged: a TCP connection
 * came from there, or a call of ours was answered from there. To any other address we send at most
 * three times what it sent to us (SEC-03), because a forged source address would make us an
 * amplifier against the host that has it.
 *
 * A table of fixed size. The keyed hash of the address chooses a set; within it, the address proved
 * longest ago makes way.
 */
#ifndef HF_RPC_PROVEN_H
#define HF_RPC_PROVEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/hash.h"

enum {
    HF_PROVEN_SETS = 2048,
    HF_PROVEN_WAYS = 8,
    HF_PROVEN_KEEP_MS = 60 * 60 * 1000,
    HF_PROVEN_FACTOR = 3, /* how much more an unproven address may be sent than it has sent */
};

struct hf_proven_entry {
    struct hf_addr host; /* family NONE: not in use */
    uint64_t proved_ms;
};

struct hf_proven {
    struct hf_hash_key key;
    struct hf_proven_entry sets[HF_PROVEN_SETS][HF_PROVEN_WAYS];
};

void hf_proven_add(struct hf_proven *proven, const struct hf_addr *host, uint64_t now_ms);

/* Loopback needs no proof: the kernel drops packets with its addresses that come from outside. */
bool hf_proven_has(const struct hf_proven *proven, const struct hf_addr *host, uint64_t now_ms);

#endif
