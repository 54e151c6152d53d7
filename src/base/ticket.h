/*
 * The conditions for sending an answer: the core hands out a ticket with each answer, and the
 * service (service/service.h) tells when the answer may leave.
 */
#ifndef HF_BASE_TICKET_H
#define HF_BASE_TICKET_H

#include <stdint.h>

struct hf_ticket {
    uint64_t seq; /* the batch that must be durable first; 0: the answer depends on no batch */
    /* If not 0, the answer must first wait for the event with this id: a decision of the core,
     * which then names the batch, or the end of a callback. */
    uint64_t decision;
};

#endif
