/*
 * What clients believe about share reservations. A share is neither recorded nor reclaimed, so a
 * restart of the server ends it. Until then a client that was told GRANTED counts on it: no two
 * clients may believe in shares that conflict, and the server must have each share that its client
 * believes in. Only a notice, FREE_ALL or the operator takes one away, and a notice or FREE_ALL
 * takes no share that the client got after it came, however long it is verified (SEC-04).
 */
#ifndef HF_SIM_BELIEFS_H
#define HF_SIM_BELIEFS_H

#include <stdbool.h>
#include <stdint.h>

#include "oracle.h"

struct sim_message;
struct sim_world;

struct sim_belief {
    bool given; /* the server has answered GRANTED, or is about to */
    bool told;  /* the client has received GRANTED */
    bool old;   /* a crash notice came after the grant, and is being verified */
    uint8_t mode;
    uint8_t access;
};

struct sim_beliefs {
    struct sim_belief of[SIM_OWNERS][SIM_FILES];
};

/* Notes that the server has executed a SHARE or UNSHARE. stale: the process that asked has crashed
 * or moved on since. */
void sim_beliefs_executed(struct sim_world *world, const struct sim_message *request, bool granted,
                          bool stale);

/* The process sends a request about a file: until the answer comes, it counts on no share of that
 * file. The second function notes the answer. */
void sim_beliefs_asked(struct sim_world *world, const struct sim_message *request);
void sim_beliefs_answered(struct sim_world *world, const struct sim_message *request);

/* A notice of the host came and is being verified; the other two functions end that: the notice was
 * true, or it was contradicted. */
void sim_beliefs_notified(struct sim_world *world, unsigned host);
void sim_beliefs_verified(struct sim_world *world, unsigned host, bool believed);

/* The host has crashed or sent FREE_ALL, or the operator released all that it had. */
void sim_beliefs_host_gone(struct sim_world *world, unsigned host);
void sim_beliefs_file_released(struct sim_world *world, unsigned file);

/* After each event. */
void sim_beliefs_check(struct sim_world *world);

#endif
