/*
 * What we owe the senders of datagrams (SEC-03). The source address of a datagram may be forged,
 * and our outgoing calls to it would make us an amplifier against the host that has it. So each
 * address has an account, as QUIC has (RFC 9000, section 8.1): for each byte that has come from
 * there, three may go there (base/trust.h). Requests count, and so do answers to our questions:
 * their transaction ids cannot be guessed, so they are the peer's own bytes. All that we send is
 * charged at its size; a call that a datagram has provoked is sent only if the account has enough.
 *
 * So an honest client pays by one LOCK for the search of its port and for its GRANTED, although
 * some of these packets are lost and repeated; tests/hostile/test_hostile_udp.py says how many.
 *
 * An address needs no credit for an hour after it has taken a lock that we granted by callback,
 * because only the host that waits for a lock takes it.
 *
 * The accounts are in a table of fixed size. The keyed hash of the address chooses a set. If the
 * set is full, the address in it that has shown least makes way: it loses its credit, and gets some
 * by its next datagram.
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
    HF_CREDIT_HEADERS = 28, /* the size of the headers of IP and UDP */
    HF_CREDIT_KEEP_MS = 60 * 60 * 1000,
};

struct hf_credit {
    struct hf_addr host; /* the address that has the account; family NONE: the place is free */
    /* the credit; below 0, because answers are sent and charged even without it */
    int32_t bytes;
    uint64_t shown_ms; /* when the address took a lock; 0: never */
};

struct hf_credits {
    struct hf_hash_key key;
    struct hf_credit sets[HF_CREDIT_SETS][HF_CREDIT_WAYS];
};

/* Counts a datagram of this size that came from the host, or an answer to a request that went
 * there. */
void hf_credit_came(struct hf_credits *credits, const struct hf_addr *host, size_t size);
void hf_credit_answered(struct hf_credits *credits, const struct hf_addr *host, size_t size);

/* Remembers that the host has taken a lock that we granted it by callback. */
void hf_credit_shown(struct hf_credits *credits, const struct hf_addr *host, uint64_t now_ms);

/* Returns what the sender of datagrams from this address has shown: NOTHING or ANSWERED. */
enum hf_trust hf_credit_trust(const struct hf_credits *credits, const struct hf_addr *host,
                              uint64_t now_ms);

/* True if the credit is enough for a call of this size. */
bool hf_credit_has(const struct hf_credits *credits, const struct hf_addr *host, size_t size);

/* Pays for a call of this size; false if the credit is too small. */
bool hf_credit_spend(struct hf_credits *credits, const struct hf_addr *host, size_t size);

#endif
