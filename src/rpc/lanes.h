/* Lanes: at most one conversation (a call with its lookup of the port) at a time with each address,
 * and a bounded number in all (SEC-03), so that a host that provokes calls cannot aim many of them
 * at one address, or use up our files. Calls with the flag `apart` have a second lane for their
 * address: the peer's silence to them decides about locks (SEC-04), so calls that a stranger can
 * provoke must not delay them.
 *
 * A call whose address is busy waits in the lane of that address, within its own time. Calls that
 * the peer cannot ask for again (a GRANTED, a crash notice) go before expendable ones (a _RES: a
 * peer that gets none repeats its request). An expendable call gives way to any other call to its
 * address: at once if it has been sent, because some clients never acknowledge a _RES, and within
 * half a second if it still looks for the port.
 *
 * Private to src/rpc. */
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
    /* How many conversations there may be in all; less where the process may open few files. */
    HF_LANES_RUNNING_MAX = 12288,
    /* How many conversations may be those of expendable calls to addresses that need credit
     * (credit.h). */
    HF_LANES_TRIALS_MAX = 512,
    HF_LANE_QUEUE_MAX = 4096,    /* how many calls may wait for one address */
    HF_LANE_EXPENDABLE_MAX = 64, /* how many expendable calls may wait for one address */
    /* how soon an expendable call that still looks for its port gives way */
    HF_LANE_GIVE_WAY_MS = 500,
    HF_LANES_QUEUED_MAX = 1 << 16, /* how many calls may wait for all addresses together */
};

struct hf_rpc_lane {
    struct hf_map_node node;
    struct hf_addr host;
    bool apart; /* the second lane of its address, for calls with the flag `apart` */
    struct hf_rpc_outcall *current;
    struct hf_list firm;       /* waiting calls that are not expendable, oldest first */
    struct hf_list expendable; /* waiting expendable calls, oldest first */
    unsigned n_firm;
    unsigned n_expendable;
    uint64_t answered_ms; /* when the address last answered a call; 0: not yet */
    struct hf_list link;  /* links the lane into lanes->due, lanes->starved or lanes->spare */
};

struct hf_rpc_lanes {
    struct hf_map map;
    struct hf_list due;     /* the lanes to be served, because something has changed */
    struct hf_list starved; /* the lanes whose next call waits until any other conversation ends */
    struct hf_list spare;
    /* Expires at once when a lane must be served: a done function must not run inside its caller's
     * own call. */
    uv_timer_t timer;
    unsigned running;
    unsigned running_max;
    unsigned queued;
    unsigned trials;
};

int hf_lanes_init(struct hf_rpc_client *client);
void hf_lanes_free(struct hf_rpc_client *client);

/* Lets the call begin, now or when its turn comes. Returns HF_ELIMIT when too many calls wait,
 * HF_ENOMEM, or the error of beginning the call. */
int hf_lanes_enter(struct hf_rpc_outcall *call);

/* Reports that the call's conversation is over, or that the call has ended while it waited. */
void hf_lanes_leave(struct hf_rpc_outcall *call);

/* Reports that the call has been sent; if it is expendable and other calls wait, it gives way. */
void hf_lanes_sent(struct hf_rpc_outcall *call);

/* Reports that the call's address has answered, so its host is reachable. */
void hf_lanes_answered(struct hf_rpc_outcall *call);

#endif
