/*
 * Keeps what an operator must see without reading the log: locks that clients lost after a restart
 * of ours, until an operator acknowledges the loss; and the last request that each limit refused.
 *
 * Numbers come from the core's counters, and are exact. Names come from the core's events: the
 * clients that lost locks are kept in the order of their loss, up to a bound; further clients are
 * only counted.
 */
#ifndef HF_SERVICE_TROUBLES_H
#define HF_SERVICE_TROUBLES_H

#include "core/view.h"

enum { HF_TROUBLES_LOSSES_MAX = 256 };

/* A client with the name and address that the core's events give. */
struct hf_trouble_host {
    struct hf_addr addr;
    uint16_t name_len;
    uint8_t name[HF_EVENT_NAME_MAX];
};

struct hf_trouble_loss {
    struct hf_trouble_host client;
    enum hf_loss reason;
    /* How many locks the client lost; 0: unknown, because locks are not durable. */
    uint64_t locks;
    int64_t at_ms; /* when the client lost the locks, by the wall clock */
};

struct hf_trouble_limit {
    struct hf_trouble_host client; /* the client whose request was refused last */
    int64_t at_ms;                 /* when the limit last refused a request; 0: never */
};

struct hf_troubles {
    struct hf_trouble_loss losses[HF_TROUBLES_LOSSES_MAX];
    size_t n_losses;
    /* The values of the core's counters when an operator last acknowledged the losses. */
    uint64_t locks_acknowledged, clients_acknowledged;
    uint64_t locks_earlier, clients_earlier; /* what clients lost in earlier runs of the daemon */
    /* a counter of the changes of the list of losses: the file is rewritten when it has grown */
    uint64_t version;
    struct hf_trouble_limit limits[HF_LIMITS];
};

/* Notes an event if it is about a loss or a limit. */
void hf_troubles_note(struct hf_troubles *troubles, const struct hf_event *event, int64_t wall_ms);

/* Returns how many locks and clients were lost since the last acknowledgement. */
void hf_troubles_lost(const struct hf_troubles *troubles, const struct hf_counters *counters,
                      uint64_t *clients, uint64_t *locks);

/* Empties the list of losses, because the operator has acknowledged them. */
void hf_troubles_acknowledge(struct hf_troubles *troubles, const struct hf_counters *counters);

#endif
