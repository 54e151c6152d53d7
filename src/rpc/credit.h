/* The credit of hosts that send datagrams (SEC-03). The source address of a datagram may be forged,
 * and our outgoing calls to that address would make us an amplifier against its host. So each
 * address has an account, as in QUIC (RFC 9000, section 8.1): for each byte that has come from an
 * address, three may go there (base/trust.h). Requests count, and so do answers to our questions:
 * because transaction ids cannot be guessed, an answer proves that the peer sent it. All that we
 * send is charged at its size; a call that a datagram has provoked is sent only if the account has
 * enough.
 *
 * An honest client's LOCK pays for the search of its port and for its GRANTED, even if some of
 * these packets are lost and repeated; tests/hostile/test_hostile_udp.py says how many.
 *
 * An address needs no credit for an hour after it has taken a lock that we granted by callback,
 * because only the host that waits for a lock takes it.
 *
 * The accounts are in a table of fixed size. The keyed hash of an address chooses a set of places.
 * If the set is full, the account that has proved least makes way: it loses its credit, and gets
 * new credit with its next datagram. */
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
    HF_CREDIT_HEADERS = 28, /* the size of the IP and UDP headers of a datagram */
    HF_CREDIT_KEEP_MS = 60 * 60 * 1000,
};

struct hf_credit {
    /* the address that has the account; family NONE: this place of the table is free */
    struct hf_addr host;
    /* The credit. It can be negative, because answers are sent and charged even without credit. */
    int32_t bytes;
    uint64_t shown_ms; /* when the address last took a lock that we granted by callback; 0: never */
};

struct hf_credits {
    struct hf_hash_key key;
    struct hf_credit sets[HF_CREDIT_SETS][HF_CREDIT_WAYS];
};

/* hf_credit_came() adds the credit for a datagram of this size from the host. hf_credit_answered()
 * charges the host for an answer of this size that was sent there. */
void hf_credit_came(struct hf_credits *credits, const struct hf_addr *host, size_t size);
void hf_credit_answered(struct hf_credits *credits, const struct hf_addr *host, size_t size);

/* Notes that the host has taken a lock that we granted it by callback. */
void hf_credit_shown(struct hf_credits *credits, const struct hf_addr *host, uint64_t now_ms);

/* Returns the trust in the sender of datagrams from this address: NOTHING or ANSWERED. */
enum hf_trust hf_credit_trust(const struct hf_credits *credits, const struct hf_addr *host,
                              uint64_t now_ms);

/* True if the host's credit is enough for a call of this size. */
bool hf_credit_has(const struct hf_credits *credits, const struct hf_addr *host, size_t size);

/* Pays for a call of this size from the host's credit; false if the credit is too small. */
bool hf_credit_spend(struct hf_credits *credits, const struct hf_addr *host, size_t size);

#endif
