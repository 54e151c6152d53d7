/*
 * One host attacks while another locks and unlocks: hostile.c says when and measures,
 * hostile_shapes.c says with what, hostile_wire.c carries it.
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
    STATS = 10, /* answers that NLM knows */
};

/* A request; what it does not set is zero. The owner's number makes its handle and its svid. */
struct request {
    uint32_t prog, proc; /* prog 0: NLM */
    const char *name;    /* caller_name; NULL: the default */
    uint32_t file, owner;
    uint64_t offset, length; /* length 0: to the end */
    bool exclusive, block, reclaim;
};

/* ---- hostile_wire.c ---- */

struct peer {
    int fd;
    bool udp;
    const char *name; /* of its host */
    uint32_t xid;
    unsigned pending; /* requests without an answer */
    size_t out_len, in_len;
    uint64_t answers[STATS + 1]; /* by NLM status; the last one: anything else */
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

/* From a reserved port, as kernels do. -1 or NULL if the server does not accept the connection. */
int connect_from(const char *from, const char *to, bool udp);
struct peer *peer_new(const char *from, const char *to, bool udp, const char *name);
void peer_del(struct peer *p);
bool peer_has_room(const struct peer *p);
void peer_put(struct peer *p, const struct request *request);
void peer_flush(struct peer *p); /* in one write, if there is room */
void peer_drain(struct peer *p); /* waits for all answers */
bool peer_has_answer(const struct peer *p);
unsigned peer_ask(struct peer *p, const struct request *request); /* the NLM status */

/* A host that takes every packet to its portmapper and answers none. */
void be_silent(const char *address);

/* ---- hostile_shapes.c ---- */

typedef void (*maker)(uint64_t i, struct request *out); /* the i-th request */

struct attack {
    const char *from;
    struct peer *peers[16]; /* shape->connections of them */
    uint64_t next;          /* number of the next request */
    uint64_t sent;
    atomic_bool stop;
};

struct shape {
    const char *name, *text;
    struct {
        uint64_t count;
        maker make;
    } setup[4];
    maker attack;
    void (*run)(struct attack *attack); /* instead of attack: until attack->stop */
    unsigned connections, depth;        /* requests in one write; 0: what 64 KiB hold */
    uint64_t cycle; /* the last of so many requests is the expensive one; 0: each is */
    bool grace;     /* the server is in its grace period, and the victim reclaims */
    bool silent;    /* the attacker's host answers no packet */
};

extern const struct shape shapes[];
extern const size_t n_shapes;

#endif
