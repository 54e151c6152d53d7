/*
 * The configuration of the core, and the time as its caller passes it. The core copies its
 * configuration, except for the bytes it points to (names, export rules), which must outlive the
 * core.
 */
#ifndef HF_CORE_CONFIG_H
#define HF_CORE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/network.h"
#include "core/record.h"

/*
 * The time, as the caller sees it. Every schedule uses mono_ms, which never runs backwards. wall_ms
 * (Unix time) is only stored and shown, so a wall clock that jumps does no harm.
 */
struct hf_now {
    uint64_t mono_ms;
    int64_t wall_ms;
};

/*
 * Limits (SPEC section 4). A request that hits one is answered DENIED_NOLOCKS (SM_MON: STAT_FAIL),
 * and counted. NLM clients and SM_MON registrations are counted apart, so neither can starve the
 * other. A share (SHARE) and a waiter count as a lock of their client and in the total. UNLOCK and
 * reclaims may exceed the limits on locks (table/limits.c).
 */
struct hf_limits {
    uint32_t clients;
    uint32_t locks_per_owner; /* this limit also bounds what one LOCK or UNLOCK can change */
    uint32_t locks_per_client;
    uint32_t locks_per_file;
    uint32_t locks;
    uint32_t waiters_per_file;
    uint32_t waiters_per_owner;
    uint32_t waiters_per_client;
    /* This limit and the next two bound what one remote address has; this host is exempt. */
    uint32_t clients_per_host;
    uint32_t locks_per_host;
    uint32_t registrations_per_host;
    uint32_t beyond; /* by how many UNLOCK and reclaims may exceed the limits on locks */
};

enum { HF_LOCKS_BEYOND = 1000 }; /* the value that `beyond` has in the daemon */

/*
 * Bounds on the work of one request or tick, in objects visited (hf_core_work()), so that no peer
 * can make another wait. Work that is cut off is not lost: serving waiters and releasing locks
 * continue at the next tick; a search for a deadlock is repeated when the client repeats its
 * request.
 */
struct hf_budgets {
    uint32_t search; /* bounds one search for a cycle of owners that wait for each other */
    /* Bounds the search for a waiter that a request must queue behind; a request that finds none
     * within the bound need not queue. */
    uint32_t ahead;
    uint32_t serve; /* bounds serving waiters, and looking for cycles among them */
    /* Bounds one slice of releasing what a client has; a slice always finishes the owner that it
     * has begun. */
    uint32_t release;
};

enum hf_grace_mode {
    HF_GRACE_STRICT, /* every new lock is refused while the grace period lasts */
    /* Only locks that conflict with an unreclaimed lock are refused; needs durable_locks. While
     * locks from before the restart may be unknown (DUR-02), this mode is as strict as the
     * other. */
    HF_GRACE_CONFLICT,
};

/* What becomes of the locks of a client that could not be told of our restart (NOT-03). */
enum hf_on_failure { HF_ON_FAILURE_RELEASE, HF_ON_FAILURE_KEEP };

/* A file whose handle has these bytes at this offset belongs to the named export; the first rule
 * that fits wins. */
struct hf_export_rule {
    struct hf_bytes name; /* the name has at most HF_EXPORT_NAME_MAX bytes */
    size_t offset;
    struct hf_bytes match;
};

enum { HF_IDENTITY_MAX = 64 }; /* RFC 1813: NFS3_FHSIZE */

/*
 * The operator vouches that requests with this caller name from these networks are of one client,
 * whose address changes (TRK-02). at_once: the client uses several of the addresses at a time, so a
 * request from another one moves it without a question to the address that it used before.
 */
struct hf_vouch {
    struct hf_bytes name;
    const struct hf_network *networks;
    unsigned n_networks;
    bool at_once;
};

struct hf_core_config {
    struct hf_bytes server_name; /* the name under which SM_NOTIFY tells of our restart */
    struct hf_limits limits;
    struct hf_budgets budgets;
    enum hf_grace_mode grace_mode;
    uint64_t grace_ms;
    /* HF_ROLE_MONITOR: nobody asks us for locks, and the kernel's locks outlive this process. */
    enum hf_role role;
    /* Locks are recorded; otherwise only clients are, and reclaims are checked per client. */
    bool durable_locks;
    bool continues; /* everything that clients rely on is recorded: a start need not tell them */
    bool unflushed; /* a batch of locks counts as durable once written, before the flush (DUR-02) */
    /* With standbys: no answer promises anything before a commit, even of what is not recorded
     * (HA-03). */
    bool fenced;
    bool coherent; /* the kernel must hold every lock that a client holds (claim.h) */
    /* With `coherent`: locks that the kernel cannot hold are granted without it; otherwise they are
     * refused. */
    bool grant_unmirrored;
    uint32_t claim_ranges; /* how many ranges of one file the kernel is asked to hold */
    /* The id of this boot of the host; zeros mean unknown, which config.unflushed does not
     * permit. */
    uint8_t boot_id[HF_BOOT_ID_SIZE];
    uint64_t linger_ms;       /* a registration outlives the client's last lock by this time */
    uint64_t call_timeout_ms; /* how long one attempt at any outgoing call may take */
    uint32_t call_attempts;   /* after this many failed attempts a client counts as unreachable */
    uint32_t notify_in_flight;
    enum hf_on_failure on_failure;
    /* A client's status monitor is asked before a crash notice counts (SEC-04). */
    bool verify_notices;
    uint64_t retry_for_ms; /* for how long an unanswered notice is repeated */
    /* Returns the bytes by which files are told apart (COH-05): the file handle itself, or its
     * canonical form of the same length, written to `room`. NULL: every handle is its own file. */
    struct hf_bytes (*identity)(struct hf_bytes fh, uint8_t room[HF_IDENTITY_MAX]);
    struct hf_hash_key hash_key;
    const struct hf_export_rule *export_rules; /* a file that fits no rule belongs to "default" */
    unsigned n_export_rules;
    /* How many rules, at the end of the array, are for exports of other services (HA-09). */
    unsigned n_foreign_rules;
    const struct hf_vouch *vouches; /* no two vouches have the same name */
    unsigned n_vouches;
};

/* Returns defaults, of which the daemon changes what its configuration says (SPEC section 6); the
 * caller fills in server_name and hash_key. */
struct hf_core_config hf_core_config_default(void);

#endif
