#include "rpc/lanes.h"

#include <string.h>
#include <sys/resource.h>

#include "base/assert.h"
#include "base/error.h"
#include "rpc/client_private.h"

static void on_due(uv_timer_t *timer);

int hf_lanes_init(struct hf_rpc_client *client)
{
    struct hf_rpc_lanes *lanes = &client->lanes;
    struct rlimit files;

    hf_list_init(&lanes->due);
    hf_list_init(&lanes->starved);
    hf_list_init(&lanes->spare);
    /* Limit the conversations, each of which takes a socket: most of the process's files are for
     * connections that clients open. */
    lanes->running_max = HF_LANES_RUNNING_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur / HF_RPC_CLIENT_FILES_SHARE < lanes->running_max)
        lanes->running_max = (unsigned)files.rlim_cur / HF_RPC_CLIENT_FILES_SHARE;
    if (hf_map_init(&lanes->map, client->alloc) < 0)
        return HF_ENOMEM;
    uv_timer_init(client->loop, &lanes->timer);
    lanes->timer.data = client;
    return 0;
}

void hf_lanes_free(struct hf_rpc_client *client)
{
    HF_ASSERT(client->lanes.map.count == 0);
    hf_list_foreach_safe (node, &client->lanes.spare) {
        hf_free(client->alloc, hf_list_entry(node, struct hf_rpc_lane, link));
    }
    hf_map_free(&client->lanes.map);
}

/* ---- finding a lane ---- */

/* Compares a lane with a call, which is the key of the lookup. */
static bool matches(const struct hf_map_node *node, const void *key)
{
    const struct hf_rpc_lane *lane = hf_container_of(node, const struct hf_rpc_lane, node);
    const struct hf_rpc_outcall_args *args = key;

    return lane->apart == args->apart && hf_addr_same_host(&lane->host, &args->peer);
}

static struct hf_rpc_lane *lane_get(struct hf_rpc_client *client,
                                    const struct hf_rpc_outcall_args *args)
{
    const struct hf_addr *host = &args->peer;
    uint64_t hash = hf_hash(&client->hash_key, host->bytes, sizeof(host->bytes)) ^ args->apart;
    struct hf_map_node *node = hf_map_find(&client->lanes.map, hash, matches, args);
    struct hf_rpc_lane *lane;

    if (node)
        return hf_container_of(node, struct hf_rpc_lane, node);
    lane = hf_list_first(&client->lanes.spare, struct hf_rpc_lane, link);
    if (lane)
        hf_list_remove(&lane->link);
    else
        lane = hf_malloc(client->alloc, sizeof(*lane));
    if (!lane)
        return NULL;
    *lane = (struct hf_rpc_lane){.host = *host, .apart = args->apart};
    hf_list_init(&lane->firm);
    hf_list_init(&lane->expendable);
    hf_list_init(&lane->link);
    hf_map_insert(&client->lanes.map, &lane->node, hash);
    return lane;
}

static void lane_release(struct hf_rpc_client *client, struct hf_rpc_lane *lane)
{
    if (lane->current || lane->n_firm + lane->n_expendable > 0)
        return;
    hf_map_remove(&client->lanes.map, &lane->node);
    hf_list_remove(&lane->link);
    hf_list_add_head(&client->lanes.spare, &lane->link);
}

/* ---- calls that wait ---- */

/* True if a packet of the call has left this host, in its current exchange or in the one before. */
static bool has_tried(const struct hf_rpc_outcall *call)
{
    return call->left > 0 || call->tried;
}

/* True if the silence that meets the lane's current conversation would also have met this call.
 * That is so if the conversation asks this call's program over this call's transport, a packet of
 * it has left this host, and the address has answered nothing since this call began to wait.
 * Another program may well be reached where this one is not, because of a firewall, or of a forger
 * who keeps the lane busy with a filtered port (SEC-04). */
static bool meets_silence(const struct hf_rpc_outcall *call)
{
    const struct hf_rpc_lane *lane = call->lane;
    const struct hf_rpc_outcall_args *a = &call->call_args;
    const struct hf_rpc_outcall_args *b;

    if (!lane->current || a->by_itself || lane->answered_ms >= call->started_ms)
        return false;
    b = &lane->current->call_args;
    return a->prog == b->prog && a->transport == b->transport && has_tried(lane->current);
}

/* Ends a call that has waited too long. If the peer is not silent, the call waited because of our
 * own limits, which says nothing about the peer. */
static void on_waited_too_long(uv_timer_t *timer)
{
    struct hf_rpc_outcall *call = timer->data;

    call->tried = meets_silence(call);
    hf_rpc_outcall_failed(call, call->tried ? HF_ETIMEDOUT : HF_ELIMIT);
}

static void lane_is_due(struct hf_rpc_client *client, struct hf_rpc_lane *lane)
{
    hf_list_remove(&lane->link);
    hf_list_add_tail(&client->lanes.due, &lane->link);
    uv_timer_start(&client->lanes.timer, on_due, 0, 0);
}

static int enqueue(struct hf_rpc_outcall *call)
{
    struct hf_rpc_client *client = call->client;
    struct hf_rpc_lane *lane = call->lane;
    bool expendable = call->call_args.expendable;

    if (client->lanes.queued >= HF_LANES_QUEUED_MAX ||
        (expendable ? lane->n_expendable >= HF_LANE_EXPENDABLE_MAX
                    : lane->n_firm >= HF_LANE_QUEUE_MAX))
        return HF_ELIMIT;
    hf_list_add_tail(expendable ? &lane->expendable : &lane->firm, &call->queued);
    lane->n_expendable += expendable;
    lane->n_firm += !expendable;
    client->lanes.queued++;
    uv_timer_start(&call->timer, on_waited_too_long, call->call_args.timeout_ms, 0);
    if (lane->current)
        lane_is_due(client, lane);
    return 0;
}

static void dequeue(struct hf_rpc_outcall *call)
{
    struct hf_rpc_lane *lane = call->lane;

    hf_list_remove(&call->queued);
    lane->n_expendable -= call->call_args.expendable;
    lane->n_firm -= !call->call_args.expendable;
    call->client->lanes.queued--;
    uv_timer_stop(&call->timer);
}

/* ---- conversations ---- */

static int run(struct hf_rpc_outcall *call)
{
    /* The silence of the peer will decide about locks: give the peer the whole timeout from now on,
     * without the time that the call has waited in its queue. */
    if (call->call_args.apart)
        call->deadline_ms = uv_now(call->client->loop) + call->call_args.timeout_ms;
    call->lane->current = call;
    call->client->lanes.running++;
    return hf_rpc_outcall_begin(call);
}

static void stop_running(struct hf_rpc_outcall *call)
{
    call->lane->current = NULL;
    call->client->lanes.running--;
}

/* True if the call counts against HF_LANES_TRIALS_MAX. A GRANTED does not: forged requests must not
 * keep a client from learning that it has its lock. */
static bool is_counted_trial(const struct hf_rpc_outcall *call)
{
    return call->on_trial && call->call_args.expendable;
}

int hf_lanes_enter(struct hf_rpc_outcall *call)
{
    struct hf_rpc_client *client = call->client;
    struct hf_rpc_lanes *lanes = &client->lanes;
    struct hf_rpc_lane *lane;
    int rv;

    if (is_counted_trial(call) && lanes->trials >= HF_LANES_TRIALS_MAX)
        return HF_ELIMIT;
    lane = call->lane = lane_get(client, &call->call_args);
    if (!lane)
        return HF_ENOMEM;
    if (lane->current || lane->n_firm + lane->n_expendable > 0) {
        rv = enqueue(call);
    } else if (lanes->running >= lanes->running_max) {
        rv = enqueue(call);
        if (rv == 0)
            hf_list_add_tail(&lanes->starved, &lane->link);
    } else {
        rv = run(call);
        if (rv < 0)
            stop_running(call);
    }
    if (rv < 0) {
        lane_release(client, lane);
        call->lane = NULL;
        return rv;
    }
    lanes->trials += is_counted_trial(call);
    return 0;
}

void hf_lanes_answered(struct hf_rpc_outcall *call)
{
    if (call->lane)
        call->lane->answered_ms = uv_now(call->client->loop);
}

/*
 * Checks the lane that has waited longest for a conversation elsewhere to end, because one may
 * begin now. Also called when a call ends that only waited: a place may have been reserved for it.
 */
static void wake_starved(struct hf_rpc_client *client)
{
    struct hf_rpc_lane *starved = hf_list_first(&client->lanes.starved, struct hf_rpc_lane, link);

    if (starved && client->lanes.running < client->lanes.running_max)
        lane_is_due(client, starved);
}

void hf_lanes_leave(struct hf_rpc_outcall *call)
{
    struct hf_rpc_client *client = call->client;
    struct hf_rpc_lane *lane = call->lane;

    if (!lane)
        return; /* the call was sent already, and only waits out its time */
    client->lanes.trials -= is_counted_trial(call);
    if (lane->current == call)
        stop_running(call);
    else
        dequeue(call);
    call->lane = NULL;
    if (lane->n_firm + lane->n_expendable == 0)
        lane_release(client, lane);
    else if (!lane->current)
        lane_is_due(client, lane);
    wake_starved(client);
}

void hf_lanes_sent(struct hf_rpc_outcall *call)
{
    if (call->lane && call->call_args.expendable &&
        call->lane->n_firm + call->lane->n_expendable > 0)
        lane_is_due(call->client, call->lane);
}

/* ---- giving way ---- */

/* Ends the lane's current call if it is expendable and has been sent; if it still looks for the
 * port, ends it soon. */
static bool gives_way(struct hf_rpc_lane *lane)
{
    struct hf_rpc_outcall *call = lane->current;

    if (!call->call_args.expendable)
        return false;
    if (call->sends > 0) {
        hf_rpc_outcall_give_up(call);
        return true;
    }
    if (lane->n_firm > 0)
        hf_rpc_exchange_hurry(call, call->started_ms + HF_LANE_GIVE_WAY_MS);
    return false;
}

/* Starts the next call of a lane, if a limit does not forbid it. */
static bool start_next(struct hf_rpc_client *client, struct hf_rpc_lane *lane)
{
    struct hf_list *queue = lane->n_firm > 0 ? &lane->firm : &lane->expendable;
    struct hf_rpc_outcall *call = hf_list_first(queue, struct hf_rpc_outcall, queued);
    int rv;

    if (!call || lane->current)
        return false;
    if (client->lanes.running >= client->lanes.running_max) {
        hf_list_add_tail(&client->lanes.starved, &lane->link);
        return false;
    }
    dequeue(call);
    rv = run(call);
    if (rv < 0)
        hf_rpc_exchange_fail_soon(call, rv);
    return true;
}

/* Serves one lane: starts its next call, if possible. Ending a call may free the lane, unless other
 * calls wait in it. */
static void serve(struct hf_rpc_client *client, struct hf_rpc_lane *lane)
{
    while (lane->n_firm + lane->n_expendable > 0) {
        if (lane->current && !gives_way(lane))
            return;
        hf_list_remove(&lane->link);
        if (!start_next(client, lane))
            return;
    }
}

static void on_due(uv_timer_t *timer)
{
    struct hf_rpc_client *client = timer->data;
    struct hf_list due;
    struct hf_rpc_lane *lane;

    hf_list_init(&due);
    hf_list_splice_tail(&due, &client->lanes.due);
    while ((lane = hf_list_first(&due, struct hf_rpc_lane, link))) {
        hf_list_remove(&lane->link);
        serve(client, lane);
    }
}
