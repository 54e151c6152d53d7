/*
 * The load generator's parts: what is asked of it (options.c), the requests it makes and checks
 * (requests.c), the connections that carry them (conn.c), how long answers took (histogram.h), and
 * what it does when (load.c).
 *
 * A slot is one request in flight. It does one operation of the mix after the other, step by step
 * (LOCK, UNLOCK), on a file or range of its own, so every answer is known beforehand and is
 * checked.
 */
#ifndef HF_BENCH_LOAD_H
#define HF_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MARK = 4,          /* bytes of a record mark */
    REQUEST_MAX = 256, /* bytes of a request with its mark */
    REPLY_MAX = 256,   /* bytes of an answer with its mark; correct ones are shorter */
    FH_MAX = 64,
};

enum op {
    OP_LOCK,   /* LOCK, then UNLOCK, of a range without conflicts */
    OP_TEST,   /* TEST of a free range */
    OP_DENIED, /* LOCK of a range that another owner holds */
    OP_MON,    /* SM_MON, then SM_UNMON */
    OP_NULL,   /* NLM NULL */
    OP_WAIT,   /* a blocking LOCK of what another owner holds, then CANCEL */
    OP_SHARE,  /* SHARE, then UNSHARE, of a file that no other owner opens */
    OPS,
};

/* ---- options.c ---- */

struct options {
    const char *host, *mix_text, *fh_text, *times;
    uint64_t port, connections, in_flight, idle, requests, rate, held;
    double seconds, warmup;
    bool udp, spin, json;
    uint64_t weights[OPS]; /* the mix: how often each operation happens */
    struct file {
        uint32_t len;
        uint8_t fh[FH_MAX];
    } * files;           /* the files whose ranges are locked */
    uint32_t file_count; /* 0: made-up files, one for each slot */
};

extern struct options opt;

void options_parse(int argc, char **argv);

/* ---- requests.c ---- */

/* Ids beyond those of slots: for the lock of another owner beside each slot's own, and for those of
 * --held. */
enum { ID_IN_THE_WAY = 0x40000000, ID_HELD = 0x10000000 };

extern const char *const op_names[OPS];

unsigned op_steps(enum op op);

/* Writes the request for a step, with its record mark, and returns its length. The id makes file
 * handle, owner and range the slot's own. */
size_t request_build(enum op op, unsigned step, uint32_t xid, uint32_t id,
                     uint8_t out[REQUEST_MAX]);

/* Writes a single LOCK by another owner, to hold locks before the measurement. */
size_t request_hold(uint32_t xid, uint32_t id, uint8_t out[REQUEST_MAX]);

/* True if the reply (without mark) is the right answer to that step. */
bool reply_check(enum op op, unsigned step, uint32_t xid, const uint8_t *reply, size_t len);
bool reply_is_granted(uint32_t xid, const uint8_t *reply, size_t len);

/* ---- conn.c ---- */

struct conn {
    int fd;
    uint32_t number;
    bool want_out;
    size_t out_len, out_sent;
    uint8_t *out; /* requests, each with its mark, that are to be sent at the next flush */
    size_t left_len;
    uint8_t left[MARK + REPLY_MAX]; /* TCP: the beginning of an answer whose end has not come yet */
};

uint64_t now_ns(void);
_Noreturn void die(const char *what);   /* prints what failed, and why (errno), and exits */
_Noreturn void wrong(const char *what); /* the server's fault */

int connect_to_server(bool udp);
void conn_open(struct conn *c, uint32_t number, int epoll_fd);
/* Room for a request, whose length the caller then adds to out_len. */
uint8_t *conn_room(struct conn *c);
void conn_flush(struct conn *c);

/* Reads what has arrived, calls take() for each answer, and sends what take() left to be sent. */
void conn_read(struct conn *c, void (*take)(struct conn *c, const uint8_t *reply, size_t len));

#endif
