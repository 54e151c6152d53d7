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
    bool given; /* the server has said GRANTED, or will */
    bool told;  /* and the client has heard it */
    bool old;   /* a notice came since, which is being verified */
    uint8_t mode;
    uint8_t access;
};

struct sim_beliefs {
    struct sim_belief of[SIM_OWNERS][SIM_FILES];
};

/* The server has executed a SHARE or UNSHARE; stale: of which its process knows no more. */
void sim_beliefs_executed(struct sim_world *world, const struct sim_message *request, bool granted,
                          bool stale);

/* The process asks: until it is answered it counts on nothing of the file. Then: it is answered. */
void sim_beliefs_asked(struct sim_world *world, const struct sim_message *request);
void sim_beliefs_answered(struct sim_world *world, const struct sim_message *request);

/* A notice of the host came, and is being verified; it was true; or contradicted. */
void sim_beliefs_notified(struct sim_world *world, unsigned host);
void sim_beliefs_verified(struct sim_world *world, unsigned host, bool believed);

/* The host has crashed or freed all, or all of it was released. */
void sim_beliefs_host_gone(struct sim_world *world, unsigned host);
void sim_beliefs_file_released(struct sim_world *world, unsigned file);

/* After each event. */
void sim_beliefs_check(struct sim_world *world);

#endif
