/*
 * What an answer waits for before it may leave: the core hands out a ticket with each answer, and
 * the service (service/service.h) tells when its time has come.
 */
#ifndef HF_BASE_TICKET_H
#define HF_BASE_TICKET_H

#include <stdint.h>

struct hf_ticket {
    uint64_t seq;      /* the batch that must be durable; 0: the answer depends on none */
    uint64_t decision; /* if not 0, the matter is not decided or not all done. The answer first
                          waits for what has this id: a decision of the core, which names the batch,
                          or a callback */
};

#endif
