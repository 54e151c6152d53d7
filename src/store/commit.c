#include "store/commit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

/* Pauses double from the first to the last. */
enum {
    RETRY_FIRST_MS = 10, /* between tries at one batch */
    RETRY_LAST_MS = 320,
    PROBE_FIRST_MS = 100, /* between looks at a store that is down */
    PROBE_LAST_MS = 1600,
};

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* 0 when the moment has passed. */
static uint64_t time_left_ns(uint64_t until_ns)
{
    uint64_t now = now_ns();

    return now < until_ns ? until_ns - now : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Failures that time may heal. */
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

/* Records what the last try at the store said; true if that is news for the loop. */
static bool note_health(struct hf_committer *c, int code)
{
    struct hf_store_health *health = &c->health;
    bool was_up = health->up; /* only this thread writes it */

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

/* Whether to report a failure, rather than try once more. */
static bool is_final(struct hf_committer *c, int code, bool in_doubt, bool late)
{
    if (code == HF_EFENCED)
        return true;
    if (in_doubt) /* nobody may be told "not durable" before that is certain */
        return late && is_stopping(c);
    return late || !passes(code);
}

/* Tries until the batch is durable, or certain not to be. */
static int commit_batch(struct hf_committer *c, const struct hf_batch *batch, uint64_t give_up_ns,
                        bool *in_doubt)
{
    uint64_t pause_ns = RETRY_FIRST_MS * NS_PER_MS;
    int rv;

    *in_doubt = false;
    while ((rv = hf_store_apply(c->store, batch)) < 0) {
        bool late = time_left_ns(give_up_ns) == 0;

        /* A later try that never reached the store settles nothing about an earlier one. */
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

static void handle_batch(struct hf_committer *c, const struct hf_batch *batch)
{
    uint64_t give_up_ns = c->submitted_ns + (c->health.up ? c->config.give_up_ms * NS_PER_MS : 0);
    struct hf_commit_result result = {.batch = batch, .status = HF_EFENCED};

    if (c->health.code != HF_EFENCED)
        result.status = commit_batch(c, batch, give_up_ns, &result.in_doubt);
    result.duration_ns = now_ns() - c->submitted_ns;
    (void)note_health(c, result.status);

    pthread_mutex_lock(&c->mutex);
    c->result = result;
    c->batch = NULL;
    c->done = true;
    pthread_mutex_unlock(&c->mutex);
    c->config.wake(c->config.ctx);
}

/*
 * Waits for a batch, or for the end. While the store is down it waits no longer than pause_ns. The
 * batch, or NULL.
 */
static const struct hf_batch *wait_for_batch(struct hf_committer *c, uint64_t pause_ns,
                                             bool *stopping)
{
    bool probing = !c->health.up && c->health.code != HF_EFENCED;
    struct timespec until = timespec_of(now_ns() + pause_ns);
    const struct hf_batch *batch;
    int error = 0;

    pthread_mutex_lock(&c->mutex);
    while (!c->batch && !c->stopping && error != ETIMEDOUT) {
        if (probing)
            error = pthread_cond_timedwait(&c->changed, &c->mutex, &until);
        else
            error = pthread_cond_wait(&c->changed, &c->mutex);
    }
    batch = c->batch;
    *stopping = c->stopping;
    pthread_mutex_unlock(&c->mutex);
    return batch;
}

static void *commit_thread(void *arg)
{
    struct hf_committer *c = arg;
    const uint64_t first_ns = PROBE_FIRST_MS * NS_PER_MS;
    uint64_t pause_ns = first_ns;
    bool stopping = false;

    for (;;) {
        const struct hf_batch *batch = wait_for_batch(c, pause_ns, &stopping);

        if (batch) {
            handle_batch(c, batch);
        } else if (stopping) {
            return NULL;
        } else if (note_health(c, hf_store_probe(c->store))) {
            c->config.wake(c->config.ctx);
        }
        pause_ns = c->health.up ? first_ns : smaller(pause_ns * 2, PROBE_LAST_MS * NS_PER_MS);
    }
}

/* Signals are the loop's business: the thread starts with all of them blocked. */
static int start_thread(struct hf_committer *c)
{
    sigset_t all;
    sigset_t before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&c->thread, NULL, commit_thread, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? HF_EUNAVAIL : 0;
}

int hf_committer_init(struct hf_committer *committer, struct hf_store *store,
                      const struct hf_committer_config *config)
{
    pthread_condattr_t attr;
    int rv;

    HF_ASSERT(config->wake);
    *committer = (struct hf_committer){.store = store, .config = *config, .health = {.up = true}};
    if (pthread_condattr_init(&attr) != 0)
        return HF_ENOMEM;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rv = pthread_cond_init(&committer->changed, &attr) == 0 ? 0 : HF_ENOMEM;
    pthread_condattr_destroy(&attr);
    if (rv < 0)
        return rv;
    pthread_mutex_init(&committer->mutex, NULL);
    rv = start_thread(committer);
    if (rv < 0) {
        pthread_mutex_destroy(&committer->mutex);
        pthread_cond_destroy(&committer->changed);
    }
    return rv;
}

void hf_committer_stop(struct hf_committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    committer->stopping = true;
    pthread_cond_signal(&committer->changed);
    pthread_mutex_unlock(&committer->mutex);
    pthread_join(committer->thread, NULL);
}

void hf_committer_free(struct hf_committer *committer)
{
    HF_ASSERT(committer->stopping);
    pthread_mutex_destroy(&committer->mutex);
    pthread_cond_destroy(&committer->changed);
}

void hf_committer_submit(struct hf_committer *committer, const struct hf_batch *batch)
{
    pthread_mutex_lock(&committer->mutex);
    HF_ASSERT(!committer->batch && !committer->done && !committer->stopping);
    committer->batch = batch;
    committer->submitted_ns = now_ns();
    pthread_mutex_unlock(&committer->mutex);
    pthread_cond_signal(&committer->changed); /* now, or the thread wakes to find it locked */
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

void hf_committer_health(struct hf_committer *committer, struct hf_store_health *out)
{
    pthread_mutex_lock(&committer->mutex);
    *out = committer->health;
    pthread_mutex_unlock(&committer->mutex);
}
