#include "store/commit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "store/backup.h"

/* The commit thread doubles each pause between attempts, from the FIRST value to the LAST. */
enum {
    RETRY_FIRST_MS = 10, /* the first pause between attempts to commit one batch */
    RETRY_LAST_MS = 320,
    /* How long a written batch waits for others before the thread flushes them together. After a
     * slow flush the wait is shorter (flush_due_ns). */
    FLUSH_LAZY_MS = 5,
    /* A batch with at most this many operations counts as one request that came alone. */
    ALONE_OPS = 2,
    TIDY_MS = 250,        /* how long after the last batch the thread tidies the store */
    PROBE_FIRST_MS = 100, /* the first pause between probes of a store that is down */
    PROBE_LAST_MS = 1600,
    /* A store call that takes this much longer than give_up_ms counts as hanging. */
    HANGS_MS = 1000,
};

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

/* Returns the time until a moment; 0 when the moment has passed. */
static uint64_t time_left_ns(uint64_t until_ns)
{
    uint64_t now = hf_clock_mono_ns();

    return now < until_ns ? until_ns - now : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* True for failures of the store that may pass without a restart. */
static bool passes(int code)
{
    return code == HF_EUNREACH || code == HF_ETIMEDOUT || code == HF_EBUSY;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

static void sleep_ns(uint64_t ns)
{
    struct timespec ts = timespec_of(ns);

    while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
        continue;
}

/* Records whether the last attempt to use the store succeeded. Returns true if the store went down
 * or came up, which the caller must tell the loop. */
static bool note_health(struct hf_committer *c, int code)
{
    struct hf_store_health *health = &c->health;
    /* reading `up` needs no mutex here: only the commit thread writes it */
    bool was_up = health->up;

    if (was_up && code == 0)
        return false;
    pthread_mutex_lock(&c->mutex);
    health->up = code == 0;
    health->code = code;
    hf_format(health->reason, sizeof(health->reason), "%s", code ? hf_store_error(c->store) : "");
    pthread_mutex_unlock(&c->mutex);

    if (was_up && code < 0)
        hf_log(HF_LOG_ERROR, "the store is down: nothing is granted",
               HF_STR("why", hf_store_error(c->store)));
    else if (!was_up && code == 0)
        hf_log(HF_LOG_INFO, "the store is up again");
    return was_up != (code == 0);
}

static bool is_stopping(struct hf_committer *c)
{
    bool stopping;

    pthread_mutex_lock(&c->mutex);
    stopping = c->stopping;
    pthread_mutex_unlock(&c->mutex);
    return stopping;
}

/* True if the commit thread must report the batch as failed; false if it should try again. */
static bool is_final(struct hf_committer *c, int code, bool in_doubt, bool late)
{
    if (code == HF_EFENCED || code == HF_EBEHIND)
        return true;
    /* a batch in doubt may be durable, so it is retried until a stop ends the retries */
    if (in_doubt)
        return late && is_stopping(c);
    return late || !passes(code);
}

/*
 * Tries to commit a batch until it is durable, is certain not to be, or a stop ends the attempts.
 */
static int commit_batch(struct hf_committer *c, const struct hf_batch *batch, uint64_t give_up_ns,
                        bool *in_doubt)
{
    uint64_t pause_ns = RETRY_FIRST_MS * NS_PER_MS;
    int rv;

    *in_doubt = false;
    while ((rv = hf_store_apply(c->store, batch)) < 0) {
        bool late = time_left_ns(give_up_ns) == 0;

        /* A retry that did not reach the store leaves the doubt about an earlier attempt. */
        *in_doubt = *in_doubt || hf_store_in_doubt(c->store);
        if (is_final(c, rv, *in_doubt, late))
            return rv;
        if (late && note_health(c, rv))
            c->config.wake(c->config.ctx);
        hf_log_limited(HF_LOG_WARN, "the store does not answer: trying again",
                       HF_STR("why", hf_store_error(c->store)));
        sleep_ns(late ? pause_ns : smaller(pause_ns, time_left_ns(give_up_ns)));
        pause_ns = smaller(pause_ns * 2, RETRY_LAST_MS * NS_PER_MS);
    }
    *in_doubt = false;
    return 0;
}

/* Notes that the flush which begins now covers all batches written so far. */
static void note_flush(struct hf_committer *c)
{
    pthread_mutex_lock(&c->mutex);
    c->written_ns = 0;
    pthread_mutex_unlock(&c->mutex);
}

/* Flushes written batches. After a failure the store is down, and its probes repeat the flush. */
static void handle_flush(struct hf_committer *c)
{
    uint64_t began_ns = hf_clock_mono_ns();

    note_flush(c);
    if (note_health(c, hf_store_flush(c->store)))
        c->config.wake(c->config.ctx);
    c->flush_ns = hf_clock_mono_ns() - began_ns;
}

/* The caller must hold c->mutex. */
static void wake_mover_if_full(struct hf_committer *c)
{
    if (hf_store_is_full(c->store))
        pthread_cond_signal(&c->full);
}

static void handle_batch(struct hf_committer *c, const struct hf_batch *batch)
{
    uint64_t give_up_ns = c->submitted_ns + (c->health.up ? c->config.give_up_ms * NS_PER_MS : 0);
    struct hf_commit_result result = {.batch = batch, .status = HF_EFENCED};

    hf_busy_poll_found(&c->look, hf_clock_mono_ns());
    c->alone = batch->n_ops <= ALONE_OPS;
    note_flush(c);
    if (c->health.code != HF_EFENCED || c->config.leased)
        result.status = commit_batch(c, batch, give_up_ns, &result.in_doubt);
    if (c->config.leased)
        result.row_found = hf_store_lease_row(c->store, &result.row);
    result.duration_ns = hf_clock_mono_ns() - c->submitted_ns;
    (void)note_health(c, result.status);
    c->batch_ns = hf_clock_mono_ns();

    pthread_mutex_lock(&c->mutex);
    c->result = result;
    c->batch = NULL;
    c->busy_ns = 0;
    c->done = true;
    wake_mover_if_full(c);
    pthread_mutex_unlock(&c->mutex);
    c->config.wake(c->config.ctx);
}

static void handle_tidying(struct hf_committer *c)
{
    /* If tidying the store fails, the thread tries again after another TIDY_MS. */
    c->batch_ns = hf_clock_mono_ns();
    if (note_health(c, hf_store_tidy(c->store)))
        c->config.wake(c->config.ctx);
}

static void handle_lease(struct hf_committer *c)
{
    struct hf_commit_lease lease = {.done = true};

    lease.status = hf_store_lease(c->store, c->lease.call);
    lease.row_found = hf_store_lease_row(c->store, &lease.row);
    /* A TAKE that lost the race for the lease, but saw the row, shows that the store is up. */
    (void)note_health(c, lease.row_found && lease.status != HF_EBEHIND ? 0 : lease.status);
    pthread_mutex_lock(&c->mutex);
    c->lease = lease;
    pthread_mutex_unlock(&c->mutex);
    c->config.wake(c->config.ctx);
}

static void end_backup(struct hf_committer *c, int status)
{
    pthread_mutex_lock(&c->mutex);
    c->backup = (struct hf_commit_backup){.done = true, .status = status};
    pthread_mutex_unlock(&c->mutex);
    c->config.wake(c->config.ctx);
}

static void handle_backup(struct hf_committer *c, bool stopping)
{
    end_backup(c, stopping ? HF_ECANCELED
                           : hf_backup_write(c->store, c->backup.wall_ms, c->backup.out));
}

/* Probes the store after the mover failed, to find out whether the store is usable: an error of the
 * mover alone does not tell. */
static void handle_failed_move(struct hf_committer *c)
{
    pthread_mutex_lock(&c->mutex);
    c->move_failed = false;
    pthread_mutex_unlock(&c->mutex);
    if (note_health(c, hf_store_probe(c->store)))
        c->config.wake(c->config.ctx);
}

/* What the commit thread has to do besides a batch. */
struct other_work {
    bool lease;
    bool backup;
    bool move_failed;
    bool stopping;
};

static bool backup_is_ours(const struct hf_committer *c)
{
    return c->backup.out && !hf_store_is_shared(c->store);
}

/* Returns when the thread must begin to flush written batches so that they are durable within
 * HF_COMMIT_FLUSH_MS, if the flush takes as long as the last one did. */
static uint64_t flush_due_ns(const struct hf_committer *c)
{
    const uint64_t within_ns = HF_COMMIT_FLUSH_MS * NS_PER_MS;
    uint64_t spare_ns = c->flush_ns < within_ns ? within_ns - c->flush_ns : 0;

    return c->written_ns + smaller(spare_ns, FLUSH_LAZY_MS * NS_PER_MS);
}

static uint64_t tidy_due_ns(const struct hf_committer *c)
{
    return c->store->untidy ? c->batch_ns + TIDY_MS * NS_PER_MS : UINT64_MAX;
}

/* Returns when the commit thread must next act without being asked: to probe, flush or tidy the
 * store. */
static uint64_t own_work_ns(const struct hf_committer *c, uint64_t probe_ns)
{
    if (c->move_failed)
        return 0;
    if (!c->health.up) /* with a lease, its transactions show whether the store is up: no probe */
        return c->health.code != HF_EFENCED && !c->config.leased ? probe_ns : UINT64_MAX;
    return c->written_ns ? flush_due_ns(c) : tidy_due_ns(c);
}

/* Polls for a batch before sleeping, if the last batches came one at a time and fast (RPC-04). A
 * lease transaction or a backup can wait until the polling ends. Each turn yields the processor,
 * which the loop or a client may need. */
static void look_for_batch(struct hf_committer *c)
{
    while (!c->batch && hf_busy_poll_idle(&c->look, hf_clock_mono_ns()))
        sched_yield();
}

/* Waits until there is a batch, a lease transaction, a backup or a request to stop, or until it is
 * time to flush, tidy or probe the store. Returns the batch, or NULL. */
static const struct hf_batch *wait_for_work(struct hf_committer *c, uint64_t pause_ns,
                                            struct other_work *other)
{
    uint64_t probe_ns = hf_clock_mono_ns() + pause_ns;
    const struct hf_batch *batch;

    if (c->alone)
        look_for_batch(c);
    pthread_mutex_lock(&c->mutex);
    c->busy_ns = 0;
    c->health.looked_ns = c->look.looked_ns;
    while (!c->batch && !backup_is_ours(c) && !c->lease.call && !c->stopping) {
        uint64_t own_ns = own_work_ns(c, probe_ns);
        struct timespec until = timespec_of(own_ns);

        if (own_ns == UINT64_MAX)
            pthread_cond_wait(&c->changed, &c->mutex);
        else if (own_ns <= hf_clock_mono_ns() ||
                 pthread_cond_timedwait(&c->changed, &c->mutex, &until) == ETIMEDOUT)
            break;
    }
    batch = c->batch;
    other->backup = backup_is_ours(c);
    other->move_failed = c->move_failed;
    other->lease = c->lease.call != NULL;
    other->stopping = c->stopping;
    c->busy_ns = other->backup ? 0 : hf_clock_mono_ns();
    pthread_mutex_unlock(&c->mutex);
    return batch;
}

static void *commit_thread(void *arg)
{
    struct hf_committer *c = arg;
    const uint64_t first_ns = PROBE_FIRST_MS * NS_PER_MS;
    uint64_t pause_ns = first_ns;
    struct other_work other;

    for (;;) {
        const struct hf_batch *batch = wait_for_work(c, pause_ns, &other);

        if (other.lease) {
            handle_lease(c);
        } else if (other.backup) {
            handle_backup(c, other.stopping);
        } else if (batch) {
            handle_batch(c, batch);
        } else if (other.stopping) {
            if (c->written_ns && c->health.up)
                handle_flush(c);
            return NULL;
        } else if (other.move_failed) {
            handle_failed_move(c);
        } else if (c->health.up && tidy_due_ns(c) <= hf_clock_mono_ns()) {
            handle_tidying(c);
        } else if (c->health.up) {
            handle_flush(c);
        } else if (note_health(c, hf_store_probe(c->store))) {
            c->config.wake(c->config.ctx);
        }
        pause_ns = c->health.up ? first_ns : smaller(pause_ns * 2, PROBE_LAST_MS * NS_PER_MS);
    }
}

/* ---- the other threads ---- */

static void *mover_thread(void *arg)
{
    struct hf_committer *c = arg;
    struct hf_store handle = hf_store_share(c->store);

    pthread_mutex_lock(&c->mutex);
    while (!c->stopping) {
        int rv;

        if (!hf_store_is_full(&handle)) {
            pthread_cond_wait(&c->full, &c->mutex);
            continue;
        }
        pthread_mutex_unlock(&c->mutex);
        rv = hf_store_move(&handle);
        pthread_mutex_lock(&c->mutex);
        c->move_failed |= rv < 0;
        if (rv < 0)
            pthread_cond_signal(&c->changed);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

static void *backup_thread(void *arg)
{
    struct hf_committer *c = arg;
    struct hf_store handle = hf_store_share(c->store);

    end_backup(c, hf_backup_write(&handle, c->backup.wall_ms, c->backup.out));
    return NULL;
}

/* Starts a thread with all signals blocked, because the loop thread handles them. */
static bool start_thread(pthread_t *thread, void *(*run)(void *), struct hf_committer *c)
{
    sigset_t all;
    sigset_t before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, run, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

int hf_committer_start(struct hf_committer *c)
{
    c->running = start_thread(&c->thread, commit_thread, c);
    if (!c->running)
        return HF_EUNAVAIL;
    if (!hf_store_is_shared(c->store))
        return 0;
    c->mover_running = start_thread(&c->mover, mover_thread, c);
    if (c->mover_running)
        return 0;
    hf_committer_stop(c);
    c->running = false;
    return HF_EUNAVAIL;
}

/* Makes the condition variable use the monotonic clock, so that a jump of the wall clock neither
 * delays a flush nor hurries a probe. */
static int init_condition(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int error = pthread_condattr_init(&attr);

    if (error)
        return error;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    error = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return error;
}

int hf_committer_init(struct hf_committer *committer, struct hf_store *store,
                      const struct hf_committer_config *config)
{
    HF_ASSERT(config->wake);
    *committer = (struct hf_committer){.store = store, .config = *config, .health = {.up = true}};
    if (init_condition(&committer->changed) != 0)
        return HF_ENOMEM;
    if (init_condition(&committer->full) != 0) {
        pthread_cond_destroy(&committer->changed);
        return HF_ENOMEM;
    }
    pthread_mutex_init(&committer->mutex, NULL);
    hf_busy_poll_init(&committer->look, config->busy_poll_ns);
    return 0;
}

static void join_backup(struct hf_committer *c)
{
    if (c->backup_thread_running)
        pthread_join(c->backup_thread, NULL);
    c->backup_thread_running = false;
}

void hf_committer_stop(struct hf_committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    committer->stopping = true;
    pthread_cond_signal(&committer->changed);
    pthread_cond_signal(&committer->full);
    pthread_mutex_unlock(&committer->mutex);
    if (committer->running)
        pthread_join(committer->thread, NULL);
    if (committer->mover_running)
        pthread_join(committer->mover, NULL);
    join_backup(committer);
}

void hf_committer_free(struct hf_committer *committer)
{
    HF_ASSERT(committer->stopping);
    pthread_mutex_destroy(&committer->mutex);
    pthread_cond_destroy(&committer->changed);
    pthread_cond_destroy(&committer->full);
}

void hf_committer_submit(struct hf_committer *committer, const struct hf_batch *batch)
{
    pthread_mutex_lock(&committer->mutex);
    HF_ASSERT(!committer->batch && !committer->done && !committer->stopping);
    committer->batch = batch;
    committer->submitted_ns = hf_clock_mono_ns();
    pthread_mutex_unlock(&committer->mutex);
    /* Signal only after unlocking: otherwise the commit thread would wake just to wait for the
     * mutex. */
    pthread_cond_signal(&committer->changed);
}

bool hf_committer_write(struct hf_committer *committer, const struct hf_batch *batch)
{
    bool first;

    if (!hf_store_write(committer->store, batch))
        return false;
    pthread_mutex_lock(&committer->mutex);
    HF_ASSERT(!committer->batch);
    first = committer->written_ns == 0;
    if (first)
        committer->written_ns = hf_clock_mono_ns();
    wake_mover_if_full(committer);
    pthread_mutex_unlock(&committer->mutex);
    if (first)
        pthread_cond_signal(&committer->changed);
    return true;
}

bool hf_committer_collect(struct hf_committer *committer, struct hf_commit_result *out)
{
    bool done;

    pthread_mutex_lock(&committer->mutex);
    done = committer->done;
    if (done)
        *out = committer->result;
    committer->done = false;
    pthread_mutex_unlock(&committer->mutex);
    return done;
}

void hf_committer_back_up(struct hf_committer *committer, int64_t wall_ms, struct hf_buf *out)
{
    pthread_mutex_lock(&committer->mutex);
    HF_ASSERT(!committer->backup.out && !committer->backup.done && !committer->stopping);
    committer->backup = (struct hf_commit_backup){.out = out, .wall_ms = wall_ms};
    pthread_cond_signal(&committer->changed);
    pthread_mutex_unlock(&committer->mutex);
    if (!hf_store_is_shared(committer->store))
        return;
    committer->backup_thread_running =
        start_thread(&committer->backup_thread, backup_thread, committer);
    if (!committer->backup_thread_running)
        end_backup(committer, HF_EUNAVAIL);
}

void hf_committer_lease(struct hf_committer *committer, struct hf_store_lease_call *call)
{
    pthread_mutex_lock(&committer->mutex);
    HF_ASSERT(!committer->lease.call && !committer->lease.done && !committer->stopping);
    committer->lease = (struct hf_commit_lease){.call = call};
    pthread_mutex_unlock(&committer->mutex);
    pthread_cond_signal(&committer->changed);
}

bool hf_committer_collect_lease(struct hf_committer *committer, struct hf_commit_lease *out)
{
    bool done;

    pthread_mutex_lock(&committer->mutex);
    done = committer->lease.done;
    if (done)
        *out = committer->lease;
    committer->lease.done = false;
    pthread_mutex_unlock(&committer->mutex);
    return done;
}

bool hf_committer_collect_backup(struct hf_committer *committer, int *status)
{
    bool done;

    pthread_mutex_lock(&committer->mutex);
    done = committer->backup.done;
    *status = committer->backup.status;
    committer->backup.done = false;
    pthread_mutex_unlock(&committer->mutex);
    if (done)
        join_backup(committer);
    return done;
}

/* Reports the store as down if the commit thread has been inside one store call for too long: a
 * flush on a disk that hangs does not fail, it never returns. */
static void note_hanging(const struct hf_committer *c, struct hf_store_health *out)
{
    uint64_t for_ns = c->busy_ns ? hf_clock_mono_ns() - c->busy_ns : 0;

    if (!out->up || for_ns < (c->config.give_up_ms + HANGS_MS) * NS_PER_MS)
        return;
    out->up = false;
    out->code = HF_ETIMEDOUT;
    hf_format(out->reason, sizeof(out->reason),
              "The store has not answered for %llu s: a disk that hangs?",
              (unsigned long long)(for_ns / NS_PER_S));
}

void hf_committer_health(struct hf_committer *committer, struct hf_store_health *out)
{
    pthread_mutex_lock(&committer->mutex);
    *out = committer->health;
    note_hanging(committer, out);
    pthread_mutex_unlock(&committer->mutex);
}
