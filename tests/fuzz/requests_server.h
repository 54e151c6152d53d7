/*
 * A server without sockets for fuzz_requests.c: the core, the handlers of NLM and NSM, a store in
 * memory, and outgoing calls that end when the input says so. It stands for src/daemon, src/rpc
 * and the resolver of src/nsm.
 *
 * After each entry into the core it notes how many nodes that visited (the cost). It pays for calls
 * that a datagram provoked from the account of its source, as src/rpc does (SEC-03), and asserts
 * that three bytes leave for each that came; that only a host that was told of a lock proves
 * itself; and that no more answers wait for other hosts than may (SEC-02).
 */
#ifndef HF_TESTS_FUZZ_REQUESTS_SERVER_H
#define HF_TESTS_FUZZ_REQUESTS_SERVER_H

#include "nlm/nlm.h"
#include "nsm/nsm.h"
#include "rpc/credit.h"
#include "support/faulty_heap.h"
#include "support/records.h"

/* The kinds of entry into the core, to learn which of them can be made expensive. */
enum entry {
    ENTRY_NLM,
    ENTRY_NSM = ENTRY_NLM + 24,
    ENTRY_TICK = ENTRY_NSM + 7,
    ENTRY_COMMIT,
    ENTRY_CALL,
    ENTRIES
};

enum { OUTCALLS_MAX = 256, FLOWS_MAX = 8 };

/* Counts of objects: locks and shares, which are released in slices; waiters and clients. */
struct objects {
    uint64_t locks, others;
};

struct server {
    struct hf_core_config config;
    struct faulty_heap heap;
    struct hf_alloc alloc;
    struct hf_core *core;
    struct records records;
    struct hf_service service;
    struct hf_nlm nlm;
    struct hf_nsm nsm;
    struct hf_list calls; /* requests that are not answered yet */
    const struct hf_batch *committing;
    struct outgoing {
        hf_rpc_done done; /* one of the two functions is called at the end */
        void (*resolved)(void *ctx, int error, const struct hf_addr *addrs, unsigned n);
        void *ctx;
        struct hf_addr to;
        uint64_t cookie; /* the cookie of a GRANTED; 0: another call */
        bool msg;
        bool withheld; /* the call was not paid for: it ends unanswered */
    } outgoing[OUTCALLS_MAX];
    unsigned n_outgoing;
    struct outgoing ended; /* the call whose end is being reported */
    struct hf_credits *credits;
    struct flow {
        struct hf_addr host;
        uint64_t in, out; /* bytes that came and went by UDP, until the host has proved itself */
        bool proved;
    } flows[FLOWS_MAX];
    bool ending;
    /* Called after an entry: how many nodes it visited, and how many objects the core held. */
    void (*on_cost)(const struct server *server, enum entry entry, uint64_t nodes,
                    const struct objects *objects);
};

void server_start(struct server *server);

/* Ends the process; only what was committed is left. */
void server_crash(struct server *server);

/* Makes all that is in flight durable, and stops the server. */
void server_stop(struct server *server);
void server_free(struct server *server);

struct server_request {
    uint32_t prog, vers, proc;
    enum hf_transport transport;
    struct hf_addr peer, local;
    uint32_t uid; /* the user of this host, by TCP; otherwise HF_UID_UNKNOWN */
    struct hf_bytes args;
};

/* Calls a procedure. False if there is no such procedure or its arguments cannot be decoded. */
bool server_ask(struct server *server, const struct server_request *request);

/* Commits the pending batch, or fails it with this error. */
void server_commit(struct server *server, int error);

/* Ends an outgoing call; error 0: with this state number or NLM status as its answer. */
void server_call_done(struct server *server, unsigned number, int error, uint32_t stat);

/* Does what is due at the time to which the clock was set. */
void server_tick(struct server *server);

#endif
