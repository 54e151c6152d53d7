/*
 * Lanes: at most one conversation at a time with each address, and a bounded number in all
 * (SEC-03), so that a host that provokes calls cannot aim many of them at one address, or use up
 * our files. A call that is apart has a second lane for its address: the silence to it decides
 * about locks (SEC-04), so calls that a stranger can provoke must not keep it from being made.
 *
 * A call whose address is busy waits in the lane of that address, within its own time. Calls that
 * the peer cannot ask for again (a GRANTED, a crash notice) go before expendable ones (a _RES: the
 * peer repeats its request if it gets none). An expendable call gives way to any other call to the
 * address: at once if it has been sent, because some clients never acknowledge a _RES, and within
 * half a second if it still looks for the port.
 *
 * Private to this room.
 */
#ifndef HF_RPC_LANES_H
#define HF_RPC_LANES_H

#include <stdbool.h>
#include <uv.h>

#include "base/addr.h"
#include "base/list.h"
#include "base/map.h"

struct hf_rpc_client;
struct hf_rpc_outcall;

enum {
    /* how many conversations there may be in all; less where the process may open few files */
    HF_LANES_RUNNING_MAX = 12288,
    /* how many conversations may be of expendable calls to addresses that need credit (credit.h) */
    HF_LANES_TRIALS_MAX = 512,
    HF_LANE_QUEUE_MAX = 4096,    /* how many calls may wait for one address */
    HF_LANE_EXPENDABLE_MAX = 64, /* how many expendable calls may wait for one address */
    HF_LANE_GIVE_WAY_MS = 500,   /* how soon an expendable call that looks for the port gives way */
    HF_LANES_QUEUED_MAX = 1 << 16, /* how many calls may wait in all */
};

struct hf_rpc_lane {
    struct hf_map_node node;
    struct hf_addr host;
    bool apart; /* this is the second lane of the address */
    struct hf_rpc_outcall *current;
    struct hf_list firm;       /* calls that wait and are not expendable, oldest first */
    struct hf_list expendable; /* expendable calls that wait, oldest first */
    unsigned n_firm;
    unsigned n_expendable;
    uint64_t answered_ms; /* when the address answered last; 0: not yet */
    struct hf_list link;  /* links the lane into lanes->due, lanes->starved or lanes->spare */
};

struct hf_rpc_lanes {
    struct hf_map map;
    struct hf_list due;     /* lanes to look at, because something has changed */
    struct hf_list starved; /* lanes whose next call waits for a conversation elsewhere to end */
    struct hf_list spare;
    uv_timer_t timer; /* fires at once when a lane is due, because callers must not be called back
                         from within their own call */
    unsigned running;
    unsigned running_max;
    unsigned queued;
    unsigned trials;
};

int hf_lanes_init(struct hf_rpc_client *client);
void hf_lanes_free(struct hf_rpc_client *client);

/* Lets the call begin, now or when its turn comes. Returns HF_ELIMIT when too many wait, HF_ENOMEM,
 * or the error of its begin. */
int hf_lanes_enter(struct hf_rpc_outcall *call);

/* Tells that the conversation is over, or that the call has ended while it waited. */
void hf_lanes_leave(struct hf_rpc_outcall *call);

/* Tells that the call has been sent; if it is expendable and others wait, it gives way. */
void hf_lanes_sent(struct hf_rpc_outcall *call);

/* Tells that the address of the call has answered, so its host is there. */
void hf_lanes_answered(struct hf_rpc_outcall *call);

#endif
