/*
 * The load generator's parts: the requests it makes and checks (requests.c), how long answers took
 * (histogram.h), and the connections that carry them (load.c).
 *
 * A slot is one request in flight. It goes through its operation step by step for ever (LOCK,
 * UNLOCK, LOCK, ...), on a file and range of its own, so every answer is known beforehand and is
 * checked.
 */
#ifndef HF_BENCH_LOAD_H
#define HF_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REQUEST_MAX = 512, /* bytes of a request with its record mark */
    MARK = 4,
};

enum mix {
    MIX_LOCK,   /* LOCK, UNLOCK of a range nobody else wants */
    MIX_TEST,   /* TEST of a free range */
    MIX_DENIED, /* LOCK of what another owner holds */
    MIX_MON,    /* SM_MON, SM_UNMON */
    MIX_NULL,   /* NLM NULL */
    MIXES,
};

const char *mix_name(enum mix mix);
bool mix_parse(const char *name, enum mix *out);

/* What a slot works on. */
struct target {
    uint32_t id;    /* makes file handle, owner and range its own */
    uint8_t fh[64]; /* the file handle, made up or from the server */
    uint32_t fh_len;
    uint64_t offset;
};

/* Writes the request for a step, with its record mark, and returns its length. */
size_t request_build(enum mix mix, unsigned step, uint32_t xid, const struct target *target,
                     uint8_t out[REQUEST_MAX]);

/* A single LOCK by another owner: to hold things before the measurement. */
size_t request_hold(uint32_t xid, const struct target *target, uint8_t out[REQUEST_MAX]);

/* True if the reply (without mark) is the right answer to that step. */
bool reply_check(enum mix mix, unsigned step, uint32_t xid, const uint8_t *reply, size_t len);
bool reply_is_granted(uint32_t xid, const uint8_t *reply, size_t len);

unsigned mix_steps(enum mix mix);

#endif
