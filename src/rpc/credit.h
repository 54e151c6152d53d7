/*
 * What we owe the senders of datagrams (SEC-03). The source address of a datagram may be forged,
 * and our outgoing calls to it would make us an amplifier against the host that has it. So each
 * address has a credit: what has come from there, times the factor of its trust (base/trust.h). A
 * datagram of ours that a datagram of the peer has provoked is paid from it, or is not sent.
 * Answers to our calls count as well: their transaction ids cannot be guessed, so they are the
 * peer's own bytes.
 *
 * An address from which a lock that we told of was taken needs no credit for an hour: only the host
 * that waits for a lock takes it.
 *
 * A table of fixed size. The keyed hash of the address chooses a set; within it, the address makes
 * way that has shown least. It loses its credit, and gets some by its next datagram.
 */
#ifndef HF_RPC_CREDIT_H
#define HF_RPC_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/hash.h"
#include "base/trust.h"

enum {
    HF_CREDIT_SETS = 2048,
    HF_CREDIT_WAYS = 8,
    HF_CREDIT_MAX = 64 * 1024,
    HF_CREDIT_HEADERS = 28, /* of IP and UDP */
    HF_CREDIT_KEEP_MS = 60 * 60 * 1000,
};

struct hf_credit {
    struct hf_addr host; /* family NONE: not in use */
    uint32_t bytes;
    uint64_t shown_ms; /* when it took a lock; 0: never */
};

struct hf_credits {
    struct hf_hash_key key;
    struct hf_credit sets[HF_CREDIT_SETS][HF_CREDIT_WAYS];
};

/* A datagram of this size has come from there. */
void hf_credit_came(struct hf_credits *credits, const struct hf_addr *host, size_t size);

/* It has taken a lock that we told it of. */
void hf_credit_shown(struct hf_credits *credits, const struct hf_addr *host, uint64_t now_ms);

/* What the sender of datagrams from there has shown: NOTHING or ANSWERED. */
enum hf_trust hf_credit_trust(const struct hf_credits *credits, const struct hf_addr *host,
                              uint64_t now_ms);

/* Pays for a datagram of this size; false if the credit is too small. */
bool hf_credit_spend(struct hf_credits *credits, const struct hf_addr *host, size_t size);

#endif
