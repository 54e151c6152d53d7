/* The core as a server of NLM, with a client per owner that takes every GRANTED callback. */
#ifndef HF_DIFFERENTIAL_SERVER_H
#define HF_DIFFERENTIAL_SERVER_H

#include "core/core.h"

struct server;

/* coherent: what the core grants is locked in the kernel as well (claims.h). */
struct server *server_new(bool coherent);
void server_free(struct server *server);

/* A request of an owner; length 0: to the end of the file. */
struct server_ask {
    unsigned owner;
    uint64_t offset, length;
    bool exclusive, block;
};

typedef struct hf_answer (*server_call)(struct hf_core *core, struct hf_now now,
                                        const struct hf_peer *peer,
                                        const struct hf_lock_args *args);
struct hf_answer server_ask(struct server *server, server_call call, const struct server_ask *ask);

/* The owners (as bits) whose requests wait. A request whose callback was taken waits no longer. */
uint32_t server_waits(const struct server *server);

/* The owner that a TEST named as the holder. */
unsigned server_holder(const struct hf_answer *answer);

#endif
