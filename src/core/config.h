/*
 * What an operator decides about the brain, and the notion of time it is given. A configuration is
 * copied when the core is made, except for the bytes it points to (names, share patterns), which
 * must outlive the core.
 */
#ifndef HF_CORE_CONFIG_H
#define HF_CORE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"

/*
 * A moment, as the caller sees it. Every schedule uses mono_ms, which never runs backwards; wall_ms
 * (Unix time) only goes into records and views, so a clock that jumps changes nothing but a label.
 */
struct hf_now {
    uint64_t mono_ms;
    int64_t wall_ms;
};

/*
 * SPEC section 4. Each is answered DENIED_NOLOCKS (SM_MON: STAT_FAIL) when hit, and counted. NLM
 * clients and SM_MON registrations are counted apart, so neither can starve the other. A share
 * (SHARE) and a waiter count as a lock of their client and in all. UNLOCK and reclaims may go
 * beyond the limits on locks (limits.c).
 */
struct hf_limits {
    uint32_t clients;
    uint32_t locks_per_client;
    uint32_t locks_per_file;
    uint32_t locks;
    uint32_t waiters_per_file;
};

enum hf_grace_mode {
    HF_GRACE_STRICT,   /* every new lock is refused while grace lasts */
    HF_GRACE_CONFLICT, /* only what conflicts with an unreclaimed lock; needs durable_locks */
};

/* What becomes of the locks of a client that could not be told of our restart (NOT-03). */
enum hf_on_failure { HF_ON_FAILURE_RELEASE, HF_ON_FAILURE_KEEP };

/* A file whose handle has these bytes at this offset belongs to the named share; first rule wins.
 */
struct hf_share_rule {
    struct hf_bytes name; /* at most HF_SHARE_NAME_MAX */
    size_t offset;
    struct hf_bytes match;
};

struct hf_core_config {
    struct hf_bytes server_name; /* what SM_NOTIFY calls us */
    struct hf_limits limits;
    enum hf_grace_mode grace_mode;
    uint64_t grace_ms;
    bool durable_locks;       /* no: only clients are recorded; reclaims are checked per client */
    uint64_t linger_ms;       /* a registration outlives its last lock by this */
    uint64_t call_timeout_ms; /* of one attempt of any outgoing call */
    uint32_t call_attempts;   /* then a client is given up as unreachable */
    uint32_t notify_in_flight;
    enum hf_on_failure on_failure;
    uint64_t retry_for_ms; /* how long a notice is still repeated in the background */
    struct hf_hash_key hash_key;
    const struct hf_share_rule *shares; /* what fits none belongs to the share "default" */
    unsigned n_shares;
};

/* The defaults of SPEC section 6; server_name and hash_key are the caller's to fill in. */
struct hf_core_config hf_core_config_default(void);

#endif
