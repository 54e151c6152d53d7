#include "keeper/waits.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "keeper/kernel_locks.h"

enum { STACK_BYTES = 128 * 1024, SIGNAL = SIGUSR1 };

enum job_state { IDLE, WAITING, THROUGH, ENDING };

struct hf_waiting_thread {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum job_state state; /* guarded by the mutex */
    int fd; /* guarded by the mutex; a description that stays open while the job is WAITING */
    struct hf_span span; /* guarded by the mutex */
    bool got;            /* guarded by the mutex; in state THROUGH: the kernel has given the lock */
    int wake;            /* the descriptor that wakes the loop; it never changes */
    struct hf_wait *wait; /* used by the loop's thread only */
};

/* ---- a thread ---- */

static void on_signal(int number)
{
    (void)number;
}

static void *run(void *argument)
{
    struct hf_waiting_thread *t = argument;

    (void)pthread_mutex_lock(&t->mutex);
    while (t->state != ENDING) {
        if (t->state != WAITING) {
            (void)pthread_cond_wait(&t->changed, &t->mutex);
            continue;
        }
        int fd = t->fd;
        struct hf_span span = t->span;

        (void)pthread_mutex_unlock(&t->mutex);
        int rv = hf_kernel_wait(fd, &span);
        (void)pthread_mutex_lock(&t->mutex);
        t->got = rv == 0;
        t->state = THROUGH;
        (void)pthread_cond_signal(&t->changed);
        /* If this socket is full, the loop has bytes to read, and wakes anyway. */
        (void)send(t->wake, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    (void)pthread_mutex_unlock(&t->mutex);
    return NULL;
}

/* Starts a thread with all signals blocked but its own, because signals for the process are for the
 * loop. */
static int start(struct hf_waiting_thread *t, int wake)
{
    pthread_condattr_t clock;
    pthread_attr_t attr;
    sigset_t all, before;
    int rv;

    t->wake = wake;
    (void)pthread_mutex_init(&t->mutex, NULL);
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&t->changed, &clock);
    (void)pthread_condattr_destroy(&clock);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGNAL);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rv = pthread_create(&t->thread, &attr, run, t);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rv == 0 ? 0 : HF_EUNAVAIL;
}

/* ---- the loop's side of a thread ---- */

static void give_thread(struct hf_waits *waits, struct hf_wait *wait)
{
    for (size_t i = 0; i < waits->n_threads; i++) {
        struct hf_waiting_thread *t = &waits->threads[i];

        if (t->wait)
            continue;
        t->wait = wait;
        wait->thread = t;
        waits->n_busy++;
        (void)pthread_mutex_lock(&t->mutex);
        t->fd = wait->file->fd;
        t->span = wait->refused;
        t->state = WAITING;
        (void)pthread_cond_signal(&t->changed);
        (void)pthread_mutex_unlock(&t->mutex);
        return;
    }
    HF_ASSERT(false);
}

/* Takes the thread back from its wait; true if the kernel gave it the lock. The thread is free
 * afterwards. */
static bool take_back(struct hf_waits *waits, struct hf_waiting_thread *t)
{
    bool got;

    (void)pthread_mutex_lock(&t->mutex);
    HF_ASSERT(t->state == THROUGH);
    got = t->got;
    t->state = IDLE;
    (void)pthread_mutex_unlock(&t->mutex);
    t->wait->thread = NULL;
    t->wait = NULL;
    waits->n_busy--;
    return got;
}

/* Interrupts the thread. A signal that comes just before the thread enters the kernel is lost, so
 * the signal is repeated. */
static void stop_thread(struct hf_waiting_thread *t)
{
    struct timespec until;

    (void)pthread_mutex_lock(&t->mutex);
    while (t->state == WAITING) {
        (void)pthread_kill(t->thread, SIGNAL);
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        (void)pthread_cond_timedwait(&t->changed, &t->mutex, &until);
    }
    (void)pthread_mutex_unlock(&t->mutex);
}

static bool is_through(struct hf_waiting_thread *t)
{
    bool through;

    (void)pthread_mutex_lock(&t->mutex);
    through = t->state == THROUGH;
    (void)pthread_mutex_unlock(&t->mutex);
    return through;
}

/* ---- a wait ---- */

static bool has_id(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, struct hf_wait, node)->id == *(const uint64_t *)key;
}

static struct hf_wait *find(const struct hf_waits *waits, uint64_t id)
{
    struct hf_map_node *node =
        hf_map_find(&waits->map, hf_hash_u64(&waits->key, id, 0), has_id, &id);

    return node ? hf_container_of(node, struct hf_wait, node) : NULL;
}

/* Ends a wait. Its result leaves at once, so that results are in the order of what the kernel did.
 * The wait stays in the lists until a later sweep, because a caller may be walking through them. */
static void finish(struct hf_waits *waits, struct hf_wait *wait, enum hf_keeper_status status)
{
    HF_ASSERT(!wait->thread && !wait->over);
    wait->over = true;
    waits->n_over++;
    waits->changed = true;
    hf_map_remove(&waits->map, &wait->node);
    waits->made(waits->ctx, wait, status);
}

static void sweep(struct hf_waits *waits)
{
    hf_list_foreach_safe (node, &waits->all) {
        struct hf_wait *wait = hf_list_entry(node, struct hf_wait, link);

        if (waits->n_over == 0)
            return;
        if (!wait->over)
            continue;
        hf_list_remove(&wait->file_link);
        hf_list_remove(&wait->link);
        hf_list_add_tail(&waits->unused, &wait->link);
        waits->n_over--;
        waits->count--;
        if (wait->file)
            hf_keeper_files_done(waits->files, wait->file);
    }
}

static int64_t longest_pause(const struct hf_waits *waits)
{
    int64_t ms = (int64_t)waits->n_tried / HF_WAIT_TRIES_PER_MS;

    if (ms < HF_WAIT_PAUSE_LONG_MS)
        return HF_WAIT_PAUSE_LONG_MS;
    return ms < HF_WAIT_PAUSE_MAX_MS ? ms : HF_WAIT_PAUSE_MAX_MS;
}

static void pause_for(const struct hf_waits *waits, struct hf_wait *wait, int64_t now_ms)
{
    int64_t longest = longest_pause(waits);
    int64_t end_ms = now_ms + wait->pause_ms + HF_WAIT_GRID_MS - 1;

    wait->next_ms = end_ms - end_ms % HF_WAIT_GRID_MS;
    wait->pause_ms = wait->pause_ms * 2 < longest ? wait->pause_ms * 2 : longest;
}

static bool overlap(const struct hf_span *a, const struct hf_span *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static enum hf_keeper_status open_file(struct hf_waits *waits, struct hf_wait *wait, int64_t now_ms)
{
    enum hf_keeper_status status = HF_KEEPER_OK;

    if (!wait->file) {
        status = hf_keeper_files_get(waits->files, now_ms, hf_bytes(wait->handle, wait->handle_len),
                                     wait->part.mode, &wait->file);
        if (status != HF_KEEPER_OK)
            return status;
        hf_list_add_tail(&wait->file->waits, &wait->file_link);
    }
    if (wait->part.mode == HF_KEEPER_EXCLUSIVE && !wait->file->writable) {
        hf_waits_interrupt(waits, wait->file, NULL);
        status = hf_keeper_files_make_writable(waits->files, wait->file);
    }
    return status;
}

/* True only while the kernel would surely refuse: a thread waits for a part of what this wait asks
 * for, in the same mode or a weaker one. So a crowd behind one holder costs one thread. */
static bool is_hopeless(const struct hf_wait *wait)
{
    if (!wait->file)
        return false;
    hf_list_foreach (node, &wait->file->waits) {
        const struct hf_wait *other = hf_list_entry(node, struct hf_wait, file_link);

        if (other->thread && other->refused.mode <= wait->part.mode &&
            other->refused.first >= wait->part.first && other->refused.last <= wait->part.last)
            return true;
    }
    return false;
}

/* Makes one attempt at the claim of a wait. False: the wait is over, and freed. */
static bool attempt(struct hf_waits *waits, struct hf_wait *wait, int64_t now_ms)
{
    enum hf_keeper_status status = open_file(waits, wait, now_ms);
    struct hf_holder holder;

    if (status == HF_KEEPER_OK) {
        if (is_hopeless(wait))
            return true;
        hf_waits_interrupt(waits, wait->file, &wait->part);
        status = hf_keeper_claim(waits->files, wait->file, &wait->part, &holder, &wait->refused);
    }
    if (status == HF_KEEPER_CONFLICT || status == HF_KEEPER_NOT_YET) {
        /* A lease or a search is in the way, for which no thread can wait. */
        if (status == HF_KEEPER_NOT_YET)
            wait->refused.mode = HF_KEEPER_NONE;
        return true;
    }
    finish(waits, wait, status);
    return false;
}

enum hf_keeper_status hf_waits_add(struct hf_waits *waits, int64_t now_ms,
                                   const struct hf_keeper_op *op)
{
    struct hf_wait *wait;
    uint64_t hash = hf_hash_u64(&waits->key, op->id, 0);

    if (hf_list_empty(&waits->unused))
        sweep(waits);
    wait = hf_list_first(&waits->unused, struct hf_wait, link);
    if (!wait || find(waits, op->id))
        return HF_KEEPER_TOO_MANY_WAITS;
    *wait = (struct hf_wait){.link = wait->link,
                             .id = op->id,
                             .pause_ms = HF_WAIT_PAUSE_MIN_MS,
                             .handle_len = op->handle_len};
    memcpy(wait->handle, op->handle, op->handle_len);
    hf_list_init(&wait->file_link);
    hf_list_remove(&wait->link);
    hf_list_add_tail(&waits->all, &wait->link);
    hf_map_insert(&waits->map, &wait->node, hash);
    waits->count++;
    waits->changed = true;
    wait->part.mode = (enum hf_keeper_mode)op->mode;
    if (!hf_range_clamp(op->offset, op->length, &wait->part)) {
        finish(waits, wait, HF_KEEPER_OK);
        return HF_KEEPER_OK;
    }
    wait->refused = wait->part;
    if (attempt(waits, wait, now_ms))
        pause_for(waits, wait, now_ms);
    return HF_KEEPER_OK;
}

/*
 * Handles a thread that is back from the kernel. Either the claim of the wait is whole now, or the
 * part that the thread got is given back: a wait must not hold a part while it waits for another.
 */
static void settle(struct hf_waits *waits, struct hf_waiting_thread *t)
{
    struct hf_wait *wait = t->wait;
    struct hf_span span = t->span;
    struct hf_holder holder;

    waits->changed = true;
    if (!take_back(waits, t))
        return;
    if (hf_keeper_claim(waits->files, wait->file, &wait->part, &holder, &wait->refused) ==
        HF_KEEPER_OK)
        finish(waits, wait, HF_KEEPER_OK);
    else
        hf_restore(wait->file, &span);
}

void hf_waits_interrupt(struct hf_waits *waits, struct hf_keeper_file *file,
                        const struct hf_span *part)
{
    for (size_t i = 0; i < waits->n_threads && waits->n_busy > 0; i++) {
        struct hf_waiting_thread *t = &waits->threads[i];

        if (t->wait && t->wait->file == file && (!part || overlap(&t->wait->part, part))) {
            stop_thread(t);
            settle(waits, t);
        }
    }
}

static void end_wait(struct hf_waits *waits, struct hf_wait *wait, enum hf_keeper_status status)
{
    if (wait->thread) {
        struct hf_waiting_thread *t = wait->thread;

        stop_thread(t);
        settle(waits, t);
    }
    if (!wait->over) /* a wait that is over has its result already */
        finish(waits, wait, status);
}

void hf_waits_cancel(struct hf_waits *waits, uint64_t id, enum hf_keeper_status status)
{
    struct hf_wait *wait = find(waits, id);

    if (wait)
        end_wait(waits, wait, status);
}

void hf_waits_cancel_all(struct hf_waits *waits, struct hf_keeper_file *file,
                         enum hf_keeper_status status)
{
    hf_list_foreach_safe (node, &waits->all) {
        struct hf_wait *wait = hf_list_entry(node, struct hf_wait, link);

        if (!wait->over && (!file || wait->file == file))
            end_wait(waits, wait, status);
    }
    sweep(waits);
}

/* ---- a step ---- */

void hf_waits_drain(struct hf_waits *waits)
{
    char byte;

    while (recv(waits->wake[0], &byte, 1, MSG_DONTWAIT) > 0)
        ;
}

static void collect(struct hf_waits *waits)
{
    for (size_t i = 0; i < waits->n_threads && waits->n_busy > 0; i++) {
        if (waits->threads[i].wait && is_through(&waits->threads[i]))
            settle(waits, &waits->threads[i]);
    }
}

/* True if a thread may wait for this. Only one thread waits for a stretch of a file at a time: two
 * threads that could set the same bytes to different modes would undo each other's locks. */
static bool may_have_thread(const struct hf_waits *waits, const struct hf_wait *wait)
{
    if (waits->n_busy == waits->n_threads || !wait->file || wait->refused.mode == HF_KEEPER_NONE)
        return false;
    hf_list_foreach (node, &wait->file->waits) {
        const struct hf_wait *other = hf_list_entry(node, struct hf_wait, file_link);

        if (other->thread && overlap(&other->part, &wait->part))
            return false;
    }
    return true;
}

/* Gives threads to the oldest waits first. An attempt finds the stretch to wait for, because locks
 * of our own may have changed since the last attempt. */
static void give_threads(struct hf_waits *waits, int64_t now_ms)
{
    hf_list_foreach (node, &waits->all) {
        struct hf_wait *wait = hf_list_entry(node, struct hf_wait, link);

        if (waits->n_busy == waits->n_threads)
            return;
        if (!wait->over && !wait->thread && may_have_thread(waits, wait) &&
            attempt(waits, wait, now_ms) && may_have_thread(waits, wait)) {
            wait->pause_ms = HF_WAIT_PAUSE_MIN_MS;
            give_thread(waits, wait);
        }
    }
}

/* Tries the waits without a thread whose pause is over. */
static void try_due(struct hf_waits *waits, int64_t now_ms)
{
    hf_list_foreach (node, &waits->all) {
        struct hf_wait *wait = hf_list_entry(node, struct hf_wait, link);

        if (!wait->over && !wait->thread && wait->next_ms <= now_ms && !is_hopeless(wait) &&
            attempt(waits, wait, now_ms))
            pause_for(waits, wait, now_ms);
    }
}

/* Returns when the first wait is to be tried again (-1: there is none), and counts the waits that
 * are tried again. */
static int64_t first_due(struct hf_waits *waits)
{
    int64_t next_ms = -1;

    waits->n_tried = 0;
    hf_list_foreach (node, &waits->all) {
        const struct hf_wait *wait = hf_list_entry(node, struct hf_wait, link);

        if (wait->thread || is_hopeless(wait))
            continue;
        waits->n_tried++;
        if (next_ms < 0 || wait->next_ms < next_ms)
            next_ms = wait->next_ms;
    }
    return next_ms;
}

int hf_waits_step(struct hf_waits *waits, int64_t now_ms)
{
    waits->files->now_ms = now_ms;
    collect(waits);
    if (waits->changed || (waits->next_ms >= 0 && waits->next_ms <= now_ms)) {
        give_threads(waits, now_ms);
        try_due(waits, now_ms);
        /* An attempt may have interrupted waits, whose threads are free now. */
        give_threads(waits, now_ms);
        sweep(waits);
        waits->changed = false;
        waits->next_ms = first_due(waits);
    }
    if (waits->next_ms < 0)
        return -1;
    return waits->next_ms > now_ms ? (int)(waits->next_ms - now_ms) : 0;
}

/* ---- start and end ---- */

int hf_waits_init(struct hf_waits *waits, struct hf_keeper_files *files, size_t max,
                  size_t n_threads,
                  void (*made)(void *, const struct hf_wait *, enum hf_keeper_status), void *ctx)
{
    /* There is no SA_RESTART, so that the signal interrupts a thread's wait. */
    struct sigaction action = {.sa_handler = on_signal};
    int rv = 0;

    *waits = (struct hf_waits){
        .files = files, .max = max, .made = made, .ctx = ctx, .wake = {-1, -1}, .next_ms = -1};
    hf_list_init(&waits->all);
    hf_list_init(&waits->unused);
    waits->pool = calloc(max, sizeof(*waits->pool));
    waits->threads = calloc(n_threads, sizeof(*waits->threads));
    if (!waits->pool || !waits->threads || hf_map_init(&waits->map, &hf_alloc_heap) < 0 ||
        getrandom(&waits->key, sizeof(waits->key), 0) < 0)
        return HF_ENOMEM;
    for (size_t i = 0; i < max; i++)
        hf_list_add_tail(&waits->unused, &waits->pool[i].link);
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, waits->wake) < 0 ||
        sigaction(SIGNAL, &action, NULL) < 0)
        return HF_EUNAVAIL;
    while (rv == 0 && waits->n_threads < n_threads) {
        rv = start(&waits->threads[waits->n_threads], waits->wake[1]);
        if (rv == 0)
            waits->n_threads++;
    }
    return rv;
}

void hf_waits_free(struct hf_waits *waits)
{
    hf_waits_cancel_all(waits, NULL, HF_KEEPER_CANCELLED);
    for (size_t i = 0; i < waits->n_threads; i++) {
        struct hf_waiting_thread *t = &waits->threads[i];

        (void)pthread_mutex_lock(&t->mutex);
        t->state = ENDING;
        (void)pthread_cond_signal(&t->changed);
        (void)pthread_mutex_unlock(&t->mutex);
        (void)pthread_join(t->thread, NULL);
        (void)pthread_cond_destroy(&t->changed);
        (void)pthread_mutex_destroy(&t->mutex);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (waits->wake[i] >= 0)
            close(waits->wake[i]);
    }
    hf_map_free(&waits->map);
    free(waits->threads);
    free(waits->pool);
}
