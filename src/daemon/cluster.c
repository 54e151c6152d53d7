#include "daemon/cluster.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "daemon/coherence.h"
#include "daemon/daemon.h"
#include "daemon/term.h"

enum {
    RELOAD_MS = 200, /* the pause after a failed load of the store */
    /* An owner that has not loaded the store after this time leaves the service to another node. */
    LOADING_MS = 10000,
    /* A planned move is cancelled if no other node takes the service within this time. */
    MOVE_MS = 5000,
    LOOK_MS = 3000,      /* The owner looks for other nodes at least this often. */
    NODE_LOST_MS = 3000, /* A node that has not reported for this long cannot take the service. */
};

static uint64_t new_nonce(void)
{
    uint64_t nonce = 0;

    while (nonce == 0) {
        ssize_t n = getrandom(&nonce, sizeof(nonce), 0);

        /* cannot fail: the start has shown that the system has entropy */
        HF_ASSERT(n == (ssize_t)sizeof(nonce));
    }
    return nonce;
}

const char *hf_cluster_role(const struct hf_cluster *c)
{
    switch (hf_lease_state(&c->lease, hf_clock_boot_ms())) {
    case HF_LEASE_STANDBY:
        return hf_term_phase(c->daemon) == HF_TERM_WAITING ? "standby" : "leaving";
    case HF_LEASE_ACTIVE:
        return hf_term_phase(c->daemon) == HF_TERM_SERVING ? "active" : "loading";
    case HF_LEASE_SUSPENDED:
        return "suspended";
    case HF_LEASE_LEAVING:
        return "leaving";
    case HF_LEASE_HELD:
        return "held";
    case HF_LEASE_LOST:
        return "lost";
    case HF_LEASE_ALARM:
        return "alarm";
    }
    HF_UNREACHABLE();
}

/* ---- time ---- */

uint64_t hf_cluster_core_ms(void *ctx, uint64_t mono_ms)
{
    struct hf_cluster *c = ctx;

    return hf_silence_clock(&c->silence, &c->lease, hf_clock_boot_ms(), mono_ms);
}

static bool is_begun(const struct hf_cluster *c)
{
    enum hf_term_phase phase = hf_term_phase(c->daemon);

    return phase >= HF_TERM_LOADING && phase <= HF_TERM_SERVING;
}

/* ---- the gate ---- */

static bool may_send(void *ctx)
{
    const struct hf_cluster *c = ctx;

    return hf_lease_is_valid(&c->lease, hf_clock_boot_ms());
}

/* Brings the service's addresses up. With a keeper, it waits until the kernel holds the recorded
 * locks, because SMB and NFSv4 clients use these addresses, too (COH-06). */
static void take_addresses(struct hf_cluster *c)
{
    if (!c->addresses ||
        (hf_coherence_is_wanted(c->config) && hf_term_phase(c->daemon) != HF_TERM_SERVING))
        return;
    c->addresses_taken = true;
    hf_addresses_take(c->addresses, hf_lease_valid_until(&c->lease));
}

/* Notices that the lease ran out, or is valid again. */
static void watch_gate(struct hf_cluster *c, uint64_t now)
{
    bool valid = hf_lease_is_valid(&c->lease, now);
    bool owns = hf_lease_state(&c->lease, now) == HF_LEASE_SUSPENDED;

    if (valid == c->was_valid)
        return;
    c->was_valid = valid;
    if (!valid && owns) {
        c->view.expiries++;
        hf_log(HF_LOG_WARN, "the lease ran out: silent until it is renewed");
    } else if (valid && is_begun(c)) {
        take_addresses(c);
        hf_term_resume(c->daemon);
        if (c->view.expiries > 0)
            hf_log(HF_LOG_INFO, "the lease is renewed: answering again");
    }
    hf_daemon_tell_role(c->daemon);
}

/* ---- a term begins ---- */

static void load(struct hf_cluster *c)
{
    c->retry_ms = hf_term_load(c->daemon, &c->row) < 0 ? hf_clock_boot_ms() + RELOAD_MS : 0;
}

static void begin_term(struct hf_cluster *c, uint64_t now)
{
    c->began_ms = now;
    c->released = false;
    c->lost = false;
    c->served = false;
    c->view.takeovers++;
    hf_log(HF_LOG_INFO, "took the service", HF_STR("service", c->config->service),
           HF_STR("node", c->config->node), HF_UINT("lease", hf_lease_epoch(&c->lease)),
           HF_UINT("silent_ms", c->view.last_silence_ms));
    if (hf_term_listen(c->daemon) < 0) {
        hf_log(HF_LOG_ERROR, "cannot serve here: leaving the service to another node");
        hf_lease_step_down(&c->lease, HF_LEASE_UNTIL_TAKEN, now);
        return;
    }
    take_addresses(c);
    load(c);
    hf_daemon_tell_role(c->daemon);
}

void hf_cluster_not_loaded(struct hf_cluster *c, int status, const char *reason)
{
    uint64_t now = hf_clock_boot_ms();

    if (status == HF_EFORMAT || status == HF_EVERSION) {
        hf_log(HF_LOG_ERROR, "cannot load the store", HF_STR("reason", reason));
        hf_lease_step_down(&c->lease, HF_LEASE_UNTIL_TOLD, now);
    } else if (now - c->began_ms >= LOADING_MS) {
        hf_log(HF_LOG_ERROR, "cannot load the store: leaving the service to another node",
               HF_STR("reason", reason));
        hf_lease_step_down(&c->lease, HF_LEASE_UNTIL_TAKEN, now);
    } else {
        hf_log(HF_LOG_WARN, "cannot load the store yet", HF_STR("reason", reason));
        c->retry_ms = now + RELOAD_MS;
    }
    hf_cluster_carry_on(c);
}

void hf_cluster_serving(struct hf_cluster *c)
{
    c->served = true;
    c->view.last_take_ms = hf_clock_boot_ms() - c->began_ms;
    hf_log(HF_LOG_INFO, "serving", HF_STR("service", c->config->service),
           HF_UINT("took_ms", c->view.last_take_ms));
    if (!c->addresses_taken)
        take_addresses(c);
    hf_daemon_tell_role(c->daemon);
}

/* ---- a term ends ---- */

/* Leaves the term. Connections are closed only when the service's addresses are down, so that their
 * end sends no packet from these addresses. */
static void leave(struct hf_cluster *c)
{
    hf_term_leave(c->daemon);
    if (c->addresses && c->addresses_taken)
        hf_addresses_drop(c->addresses);
}

/* Ends the process: the service's addresses are up, and the runner, which could drop them, has
 * died. The lease is not released, because another node must not take the addresses, and this
 * process must not answer any longer. systemd (ExecStopPost=) or the next start drops the
 * addresses. */
static void end_without_runner(void)
{
    hf_log(HF_LOG_ERROR, "the process that handles the addresses has ended: stopping",
           HF_STR("advice",
                  "the addresses may be up; holdfastd --drop-addresses drops them, and so "
                  "do systemd and the next start"));
    hf_log_stop();
    _exit(EXIT_FAILURE);
}

static void on_addresses(void *ctx, enum hf_addresses_event event, int error)
{
    struct hf_cluster *c = ctx;

    switch (event) {
    case HF_ADDRESSES_UP:
        hf_log(HF_LOG_INFO, "the service's addresses are up");
        hf_term_resume(c->daemon);
        break;
    case HF_ADDRESSES_FAILED:
        hf_log(HF_LOG_ERROR, "cannot bring the service's addresses up: leaving it to another node",
               HF_STR("hook", c->config->cluster_hook), HF_STR("reason", hf_strerror(error)));
        hf_lease_step_down(&c->lease, HF_LEASE_UNTIL_TAKEN, hf_clock_boot_ms());
        break;
    case HF_ADDRESSES_DOWN:
        c->addresses_taken = false;
        /* The runner may have dropped the addresses because of a renewal that came a moment too
         * late for it, but not for this process: take them again. */
        if (is_begun(c) && hf_lease_is_valid(&c->lease, hf_clock_boot_ms()))
            take_addresses(c);
        if (error < 0)
            hf_log(HF_LOG_WARN, "the service's addresses are down, but the hook failed",
                   HF_STR("hook", c->config->cluster_hook), HF_STR("reason", hf_strerror(error)));
        break;
    case HF_ADDRESSES_GONE:
        if (c->addresses_taken)
            end_without_runner();
        hf_log(HF_LOG_ERROR, "the process that handles the addresses has ended: stopping");
        hf_addresses_stop(c->addresses);
        c->addresses = NULL;
        hf_cluster_stop(c);
        return;
    }
    hf_cluster_carry_on(c);
}

/* ---- from state to state ---- */

/* Stops answering at once, because the lease is lost or the database cannot be trusted. */
static void lose(struct hf_cluster *c, bool alarm)
{
    if (c->released) {
        hf_log(HF_LOG_INFO, "gave the service up", HF_STR("service", c->config->service));
    } else if (!alarm) {
        c->view.losses++;
        hf_log(HF_LOG_WARN, "lost the service to another node",
               HF_STR("service", c->config->service));
    }
    c->lost = true;
    leave(c);
}

/* Watches for the alarm in every phase: not even a standby may take the service from a database
 * that went back in time. */
static void watch_alarm(struct hf_cluster *c, uint64_t now)
{
    bool alarm = hf_lease_state(&c->lease, now) == HF_LEASE_ALARM;

    if (alarm && !c->was_alarm) {
        c->view.alarms++;
        hf_log(HF_LOG_ERROR, "the database has lost acknowledged transactions: nothing is granted",
               HF_STR("advice", "was an asynchronous replica promoted? Compare the locks; then "
                                "\"holdfastctl cluster take\" accepts what is there"));
        hf_daemon_tell_role(c->daemon);
    }
    c->was_alarm = alarm;
}

/* Gives the service up step by step (LEAVING): the batch in flight ends, the addresses go down, the
 * keeper lets its locks go, and then the lease is released. */
static void give_up(struct hf_cluster *c, uint64_t now)
{
    if (is_begun(c))
        leave(c);
    if (c->addresses_taken)
        return;
    hf_term_let_go(c->daemon);
    if (!c->pump->committing && now >= hf_term_free_at(c->daemon))
        hf_lease_silent(&c->lease);
}

static void follow_state(struct hf_cluster *c, uint64_t now)
{
    enum hf_lease_state state = hf_lease_state(&c->lease, now);

    switch (state) {
    case HF_LEASE_ACTIVE:
    case HF_LEASE_SUSPENDED:
        if (hf_term_phase(c->daemon) == HF_TERM_WAITING)
            begin_term(c, now);
        else if (c->retry_ms && now >= c->retry_ms)
            load(c);
        break;
    case HF_LEASE_LEAVING:
        give_up(c, now);
        break;
    case HF_LEASE_LOST:
    case HF_LEASE_ALARM:
        if (!c->lost && (is_begun(c) || hf_term_phase(c->daemon) == HF_TERM_LEAVING))
            lose(c, state == HF_LEASE_ALARM);
        break;
    case HF_LEASE_STANDBY:
    case HF_LEASE_HELD:
        break;
    }
    if (c->lost && hf_term_phase(c->daemon) == HF_TERM_LEAVING && !c->addresses_taken) {
        c->retry_ms = 0;
        hf_term_close(c->daemon);
        hf_daemon_tell_role(c->daemon);
    }
    if (hf_term_phase(c->daemon) != HF_TERM_WAITING)
        return;
    if (hf_lease_state(&c->lease, now) == HF_LEASE_LOST)
        hf_lease_reset(&c->lease, new_nonce(), now);
    if (c->stopping && !c->stopped && !c->calling && !hf_lease_is_owner(&c->lease)) {
        c->stopped = true;
        hf_daemon_shut_down(c->daemon);
    }
}

static void begin(struct hf_cluster *c, enum hf_lease_action action, uint64_t now)
{
    c->call = (struct hf_store_lease_call){.order = hf_lease_begin(&c->lease, action, now),
                                           .clean_stop = c->served};
    c->calling = true;
    if (action == HF_LEASE_TAKE)
        c->view.last_silence_ms = c->lease.seen.released ? 0 : now - c->lease.series_at;
    hf_committer_lease(&c->pump->committer, &c->call);
}

static void on_timer(uv_timer_t *timer)
{
    hf_cluster_carry_on(timer->data);
}

static void arm(struct hf_cluster *c, uint64_t now)
{
    uint64_t at = hf_lease_deadline(&c->lease, now);
    uint64_t pause = at > now ? at - now : 0;

    if (c->retry_ms > now && c->retry_ms - now < pause)
        pause = c->retry_ms - now;
    if (hf_lease_state(&c->lease, now) == HF_LEASE_LEAVING && hf_term_free_at(c->daemon) > now &&
        hf_term_free_at(c->daemon) - now < pause)
        pause = hf_term_free_at(c->daemon) - now;
    if (pause > LOOK_MS)
        pause = LOOK_MS;
    if (pause == 0 && (c->calling || c->pump->committing))
        pause = 1;
    uv_update_time(c->loop);
    uv_timer_start(&c->timer, on_timer, pause, 0);
}

/* True if a renewal without a batch is due. Under load each commit renews the lease, but only a
 * renewal without a batch reads the list of nodes: now and then one is made between two batches. */
static bool is_time_to_look(struct hf_cluster *c, uint64_t now)
{
    if (c->calling || c->pump->committing || now - c->tried_look_ms < LOOK_MS ||
        !hf_lease_may_commit(&c->lease, now))
        return false;
    c->tried_look_ms = now;
    return true;
}

/* Follows the lease: called after anything that may have changed its state, and when time has
 * passed. */
void hf_cluster_carry_on(struct hf_cluster *c)
{
    uint64_t now = hf_clock_boot_ms();
    enum hf_lease_action action;

    watch_gate(c, now);
    watch_alarm(c, now);
    follow_state(c, now);
    if (c->stopped)
        return;
    action = hf_lease_next(&c->lease, now);
    if (action == HF_LEASE_NOTHING && is_time_to_look(c, now))
        action = HF_LEASE_RENEW;
    if (action != HF_LEASE_NOTHING && !c->calling && !c->pump->committing)
        begin(c, action, now);
    arm(c, now);
}

/* ---- what the store's thread reports ---- */

bool hf_cluster_may_commit(const struct hf_cluster *c)
{
    return !c->calling && hf_lease_may_commit(&c->lease, hf_clock_boot_ms());
}

void hf_cluster_batch_begins(struct hf_cluster *c)
{
    (void)hf_lease_begin(&c->lease, HF_LEASE_COMMIT, hf_clock_boot_ms());
}

static void transaction_ended(struct hf_cluster *c, int status, bool row_found,
                              const struct hf_lease_row *row)
{
    enum hf_lease_result result = !row_found    ? HF_LEASE_FAILED
                                  : status == 0 ? HF_LEASE_DONE
                                                : HF_LEASE_REFUSED;

    if (result == HF_LEASE_DONE)
        c->row = *row;
    uv_update_time(c->loop);
    /* lets the core's clock notice the silence that ends here */
    (void)hf_cluster_core_ms(c, uv_now(c->loop));
    hf_lease_end(&c->lease, hf_clock_boot_ms(), result, row_found ? row : NULL);
    if (c->addresses && hf_lease_valid_until(&c->lease) > 0)
        hf_addresses_renew(c->addresses, hf_lease_valid_until(&c->lease));
    hf_term_renewed(c->daemon, hf_lease_valid_until(&c->lease));
}

void hf_cluster_batch_ended(struct hf_cluster *c, const struct hf_commit_result *result)
{
    transaction_ended(c, result->status, result->row_found, &result->row);
}

static void note_view(struct hf_cluster *c)
{
    struct hf_cluster_view *view = &c->view;

    if (c->call.n_nodes == 0)
        return;
    memcpy(view->owner, c->call.owner, sizeof(view->owner));
    view->taken_at_ms = c->call.taken_at_ms;
    memcpy(view->nodes, c->call.nodes, sizeof(view->nodes));
    view->n_nodes = c->call.n_nodes;
    view->looked_ms = hf_clock_boot_ms();
    c->tried_look_ms = view->looked_ms;
}

void hf_cluster_lease_ended(struct hf_cluster *c, const struct hf_commit_lease *result)
{
    c->calling = false;
    c->released = c->released || (c->call.order.action == HF_LEASE_RELEASE && result->status == 0);
    note_view(c);
    transaction_ended(c, result->status, result->row_found, &result->row);
    hf_cluster_carry_on(c);
}

/* ---- commands ---- */

void hf_cluster_take(struct hf_cluster *c)
{
    (void)hf_lease_accept(&c->lease);
    hf_lease_want(&c->lease);
    hf_cluster_carry_on(c);
}

void hf_cluster_release(struct hf_cluster *c)
{
    hf_lease_step_down(&c->lease, HF_LEASE_UNTIL_TOLD, hf_clock_boot_ms());
    hf_cluster_carry_on(c);
}

int hf_cluster_move(struct hf_cluster *c)
{
    bool other = false;

    if (!hf_lease_is_owner(&c->lease))
        return HF_EDENIED;
    for (unsigned i = 0; i < c->view.n_nodes; i++) {
        const struct hf_store_node *node = &c->view.nodes[i];
        other = other || (strcmp(node->name, c->config->node) != 0 && node->seen_ms < NODE_LOST_MS);
    }
    if (!other)
        return HF_ENOENT;
    hf_lease_step_down(&c->lease, HF_LEASE_UNTIL_TAKEN, hf_clock_boot_ms());
    hf_cluster_carry_on(c);
    return 0;
}

void hf_cluster_stop(struct hf_cluster *c)
{
    c->stopping = true;
    hf_lease_step_down(&c->lease, HF_LEASE_UNTIL_TOLD, hf_clock_boot_ms());
    hf_cluster_carry_on(c);
}

/* ---- opening ---- */

int hf_cluster_init(struct hf_cluster *c, struct hf_daemon *daemon, uv_loop_t *loop,
                    const struct hf_config *config, struct hf_commit_pump *pump,
                    struct hf_addresses *addresses)
{
    const struct hf_lease_config lease = {
        .lease_ms = config->lease_ms,
        .renew_ms = config->renew_ms,
        .poll_ms = config->renew_ms,
        .take_ms = config->take_ms,
        .polls = 4,
        .move_ms = config->take_ms * 2 > MOVE_MS ? config->take_ms * 2 : MOVE_MS,
    };

    *c = (struct hf_cluster){.daemon = daemon,
                             .loop = loop,
                             .config = config,
                             .pump = pump,
                             .gate = {may_send, c},
                             .addresses = addresses};
    hf_lease_init(&c->lease, &lease, new_nonce());
    /* without a runner, an outside manager moves the service's addresses */
    if (!addresses && config->cluster_addresses.n > 0)
        hf_lease_step_down(&c->lease, HF_LEASE_UNTIL_TOLD, hf_clock_boot_ms());
    uv_timer_init(loop, &c->timer);
    c->timer.data = c;
    return addresses ? hf_addresses_attach(addresses, loop, on_addresses, c) : 0;
}

void hf_cluster_close(struct hf_cluster *c)
{
    if (c->addresses)
        hf_addresses_stop(c->addresses);
    c->addresses = NULL;
    uv_close((uv_handle_t *)&c->timer, NULL);
}
