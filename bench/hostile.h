/*
 * One host attacks while another locks and unlocks: hostile.c says when and measures,
 * hostile_shapes.c and hostile_crowds.c say with what, hostile_wire.c carries it.
 */
#ifndef HF_BENCH_HOSTILE_H
#define HF_BENCH_HOSTILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NLM = 100021,
    NSM = 100024,
    PROC_TEST = 1,
    PROC_LOCK = 2,
    PROC_CANCEL = 3,
    PROC_UNLOCK = 4,
    PROC_TEST_MSG = 6,
    PROC_SHARE = 20,
    PROC_UNSHARE = 21,
    PROC_FREE_ALL = 23,
    PROC_SIMU_CRASH = 5, /* of NSM */
    STAT_GRANTED = 0,
    STATS = 10, /* the number of NLM's status codes */
    ADMIN_PORT = 8049,
};

/* A request; fields that are not set are zero. The owner's number makes its handle and its svid. */
struct request {
    uint32_t prog, proc; /* prog 0: NLM */
    const char *name;    /* caller_name; NULL: the default */
    uint32_t file, owner;
    uint64_t offset, length; /* length 0: up to the end of the file */
    bool exclusive, block, reclaim;
};

/* ---- hostile_wire.c ---- */

struct peer {
    int fd;
    bool udp;
    bool broken;      /* the server has closed the connection, or accepts no more bytes */
    bool accepted;    /* the server has sent something (peer_discard) */
    const char *name; /* of its host */
    uint32_t xid;
    unsigned pending; /* requests that were sent and not answered */
    size_t out_len, in_len;
    uint64_t answers[STATS + 1]; /* counts answers by NLM status; the last one counts all others */
    uint8_t out[64 * 1024], in[16 * 1024];
};

struct target {
    const char *host;
    uint16_t port;
    int pid;
};

extern struct target target;

uint64_t now_ns(void);
_Noreturn void die(const char *what);

/* Connects from a reserved port, as kernels do. Returns -1 or NULL if the server does not accept
 * the connection. */
int connect_from(const char *from, const char *to, bool udp);
struct peer *peer_new(const char *from, const char *to, bool udp, const char *name);
/* A connection from any port, as a user has it. */
struct peer *peer_new_from_any_port(const char *to, const char *name);
void peer_del(struct peer *p);
bool peer_has_room(const struct peer *p);
void peer_put(struct peer *p, const struct request *request);
void peer_flush(struct peer *p); /* sends the gathered requests, in one write if there is room */
void peer_drain(struct peer *p); /* waits for all answers */
bool peer_has_answer(const struct peer *p);

/* For connections whose answers do not matter: throws away what has come, and writes. Returns
 * false, and marks the peer broken, if not everything could be written in a while. */
bool peer_try_flush(struct peer *p);
void peer_discard(struct peer *p);
unsigned peer_ask(struct peer *p, const struct request *request); /* the NLM status */

/* Makes a host that takes every packet to its portmapper and answers none. Returns the socket of
 * its datagrams. */
int be_silent(const char *address);

/* ---- hostile_shapes.c ---- */

typedef void (*maker)(uint64_t i, struct request *out); /* the i-th request */

struct attack {
    const char *from;
    struct peer *peers[16]; /* shape->connections of them */
    uint64_t next;          /* number of the next request */
    uint64_t sent;
    uint64_t bytes_sent, bytes_back; /* bytes by UDP, with headers, where the shape counts them */
    atomic_ulong lists;              /* answers read to their end */
    atomic_bool stop;
};

struct shape {
    const char *name, *text;
    struct {
        uint64_t count;
        maker make;
    } setup[4];
    maker attack;
    void (*run)(struct attack *attack); /* used instead of `attack`: runs until attack->stop */
    unsigned connections, depth; /* depth: requests in one write; 0: as many as 64 KiB hold */
    /* How many requests make a cycle, whose last one is the expensive one; 0: each is. */
    uint64_t cycle;
    bool grace;  /* the server is in its grace period, and the victim reclaims */
    bool silent; /* the attacker's host answers no packet */
};

/* hostile_crowds.c */
void local_user_run(struct attack *attack);
void hasty_user_run(struct attack *attack);
void held_calls_run(struct attack *attack);
void unproved_run(struct attack *attack);
void lists_run(struct attack *attack);
void sorted_lists_run(struct attack *attack);

extern const struct shape shapes[];
extern const size_t n_shapes;

#endif
