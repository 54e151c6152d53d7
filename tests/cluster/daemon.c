#include "daemon.h"

#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/coherence.h"
#include "world.h"

static struct {
    struct cl_world *world;
    unsigned node;
} here;

void cl_enter(struct cl_world *world, unsigned node)
{
    here.world = world;
    here.node = node;
}

static struct cl_node *entered(void)
{
    return &here.world->nodes[here.node];
}

/* ------------------------------------------------------------------ the host (linked by --wrap) */

uint64_t __wrap_hf_clock_boot_ms(void); /* NOLINT: the linker's name */
ssize_t __wrap_getrandom(void *buffer, size_t len, unsigned flags);
void __wrap_hf_log_write(enum hf_log_level level, unsigned burst, const char *event,
                         const struct hf_field *fields);

uint64_t __wrap_hf_clock_boot_ms(void)
{
    return cl_clock(here.world, here.node);
}

/* Makes nonces, each of them different. */
ssize_t __wrap_getrandom(void *buffer, size_t len, unsigned flags)
{
    uint64_t nonce = ++here.world->terms;

    (void)flags;
    HF_ASSERT(len == sizeof(nonce));
    memcpy(buffer, &nonce, sizeof(nonce));
    return (ssize_t)len;
}

/* Receives a log line: the checks read there why a service moved. */
void __wrap_hf_log_write(enum hf_log_level level, unsigned burst, const char *event,
                         const struct hf_field *fields)
{
    struct cl_world *world = here.world;

    (void)burst;
    (void)fields;
    world->left += strstr(event, "to another node") && strncmp(event, "cannot", 6) == 0;
    world->stats.suspended += strcmp(event, "the lease is renewed: answering again") == 0;
    CL_TRACE(world, here.node, level, 9, "n%u: log: %s", here.node, event);
}

/* ------------------------------------------------------------------ the loop */

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
    timer->loop = loop;
    return 0;
}

/* A node has a single timer: that of cluster.c. */
int uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
    HF_ASSERT(repeat == 0 && timer == &entered()->cluster.timer);
    timer->timer_cb = cb;
    entered()->timer_ms = cl_clock(here.world, here.node) + timeout;
    return 0;
}

void uv_update_time(uv_loop_t *loop)
{
    (void)loop;
}

uint64_t uv_now(const uv_loop_t *loop)
{
    (void)loop;
    return cl_clock(here.world, here.node);
}

void uv_close(uv_handle_t *handle, uv_close_cb cb)
{
    (void)handle;
    (void)cb;
}

/* ------------------------------------------------------------------ the store's thread */

void hf_committer_lease(struct hf_committer *committer, struct hf_store_lease_call *call)
{
    HF_ASSERT(committer == &entered()->pump.committer);
    cl_node_lease(here.world, here.node, call);
}

/* ------------------------------------------------------------------ terms */

enum hf_term_phase hf_term_phase(const struct hf_daemon *d)
{
    return d->phase;
}

int hf_term_listen(struct hf_daemon *d)
{
    d->phase = HF_TERM_LOADING;
    d->world->nodes[d->node].has_served = false;
    return 0;
}

int hf_term_load(struct hf_daemon *d, const struct hf_lease_row *lease)
{
    d->world->nodes[d->node].load_row = *lease;
    cl_term_begin(d->world, d->node);
    return 0;
}

void hf_term_resume(struct hf_daemon *d)
{
    (void)d;
}

void hf_term_leave(struct hf_daemon *d)
{
    d->phase = HF_TERM_LEAVING;
}

/* No node has a keeper here; tests/interop/test_mixed_standby.py tests one. */
bool hf_coherence_is_wanted(const struct hf_config *config)
{
    (void)config;
    return false;
}

void hf_term_renewed(struct hf_daemon *d, uint64_t valid_until_ms)
{
    (void)d;
    (void)valid_until_ms;
}

void hf_term_let_go(struct hf_daemon *d)
{
    (void)d;
}

uint64_t hf_term_free_at(const struct hf_daemon *d)
{
    (void)d;
    return 0;
}

void hf_term_close(struct hf_daemon *d)
{
    enum { REAP_MS = 20 };

    cl_term_end(d->world, d->node);
    d->phase = HF_TERM_CLOSING;
    cl_push(d->world, REAP_MS, CL_EVENT_CLOSED, d->node, 0, d->world->nodes[d->node].term);
}

void cl_daemon_on_closed(struct cl_world *world, unsigned node, uint64_t term)
{
    struct cl_node *n = &world->nodes[node];

    if (n->daemon.phase != HF_TERM_CLOSING || n->term != term)
        return;
    n->daemon.phase = HF_TERM_WAITING;
    cl_enter(world, node);
    hf_cluster_carry_on(&n->cluster);
    cl_node_pump(world, node);
}

/* ------------------------------------------------------------------ the process */

void hf_daemon_tell_role(struct hf_daemon *d)
{
    (void)d;
}

void hf_daemon_shut_down(struct hf_daemon *d)
{
    /* No world stops a node cleanly: operators release the service, and faults kill nodes. */
    HF_ASSERT(!d);
}

static const struct hf_config *config_of(unsigned node)
{
    static const struct hf_lease_config times = HF_LEASE_DEFAULTS;
    static struct hf_config configs[CL_NODES];
    struct hf_config *config = &configs[node];

    config->lease_ms = times.lease_ms;
    config->renew_ms = times.renew_ms;
    config->take_ms = times.take_ms;
    config->cluster_addresses.n = 1;
    hf_format(config->node, sizeof(config->node), "n%u", node);
    return config;
}

void cl_daemon_start(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    uint32_t take = n->runner.take;

    n->daemon = (struct hf_daemon){world, node, HF_TERM_WAITING};
    n->runner = (struct hf_addresses){.world = world, .node = node, .take = take + 1};
    memset(&n->pump, 0, sizeof(n->pump));
    n->timer_ms = 0;
    cl_enter(world, node);
    HF_ASSERT(hf_cluster_init(&n->cluster, &n->daemon, &n->loop, config_of(node), &n->pump,
                              &n->runner) == 0);
    hf_cluster_carry_on(&n->cluster);
}
