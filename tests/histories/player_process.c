/* What a process of the host does, one request after the other; see player.h. */
#include <string.h>
#include <time.h>

#include "player.h"

/* Longer than all other processes take to unlock, on the slowest machine. */
enum { FOREVER_MS = 30000 };

/* ---- what it holds ---- */

void process_set_held(struct process *process, const struct range *range, enum mode mode)
{
    memset(&process->held[range->file][range->first], (int)mode, range->last - range->first + 1);
}

size_t process_runs(const struct process *process, struct range runs[FILES_MAX * CELLS])
{
    size_t n = 0;

    for (unsigned f = 0; f < host.n_files; f++) {
        const uint8_t *held = process->held[f];
        unsigned first = 0;

        for (unsigned c = 1; c <= CELLS; c++) {
            if (c < CELLS && held[c] == held[first])
                continue;
            if (held[first] != MODE_FREE)
                runs[n++] = (struct range){f, first, c - 1, (enum mode)held[first]};
            first = c;
        }
    }
    return n;
}

static bool holds_any(const struct process *process, const struct range *range)
{
    for (unsigned c = range->first; c <= range->last; c++) {
        if (process->held[range->file][c] != MODE_FREE)
            return true;
    }
    return false;
}

static bool holds_all(const struct process *process, const struct range *range)
{
    for (unsigned c = range->first; c <= range->last; c++) {
        if (process->held[range->file][c] != range->mode)
            return false;
    }
    return true;
}

static bool same_range(const struct range *a, const struct range *b)
{
    return a->file == b->file && a->first == b->first && a->last == b->last && a->mode == b->mode;
}

static bool is_shared(const struct process *process, const struct range *range)
{
    for (unsigned c = range->first; c <= range->last; c++) {
        if (process->held[range->file][c] == MODE_EXCLUSIVE)
            return false;
    }
    return true;
}

/* True if the process may ask for this range, whatever it holds of it already. */
static bool may_try(const struct process *process, const struct range *range)
{
    return host.change_modes || !holds_any(process, range) ||
           (host.upgrades && range->mode == MODE_EXCLUSIVE && is_shared(process, range));
}

bool process_granted(struct process *process, const struct range *range, unsigned *granting)
{
    bool wanted = same_range(&process->wanted, range);

    *granting = wanted ? process->granting : 0;
    if (process->waits && wanted && !(host.forgetful && process->granted_at)) {
        if (!process->granted_at)
            process->granted_at = now_ns();
        pthread_cond_broadcast(&host.news);
        return true;
    }
    return holds_all(process, range) && !host.forgetful;
}

/* ---- requests ---- */

static const char *result_of(uint32_t stat)
{
    return stat == STAT_GRANTED ? "granted" : "denied";
}

static void test(struct process *process, const struct range *range)
{
    unsigned number = log_invoked(process->number, "test", range, 0);
    struct answer answer = ask(process, &process->connection, NLM_TEST, range, 0);

    if (answer.stat == STAT_GRANTED)
        log_completed(number, "granted", 0);
    else
        log_denied_by(number, answer.by_host, answer.by_process, &answer.held);
}

/* Waits until no reclaimer runs, and returns how many restarts of the server are known. */
static unsigned begin_change(void)
{
    unsigned restarts;

    pthread_mutex_lock(&host.guard);
    while (host.reclaiming)
        pthread_cond_wait(&host.news, &host.guard);
    restarts = host.restarts;
    pthread_mutex_unlock(&host.guard);
    return restarts;
}

/* Sends LOCK. A server that restarted meanwhile may have forgotten the lock, so the process then
 * asks again, as a kernel does. */
static uint32_t lock_until_sure(struct process *process, const struct range *range, int flags)
{
    for (;;) {
        unsigned before = begin_change();
        uint32_t stat = ask(process, &process->connection, NLM_LOCK, range, flags).stat;
        bool sure;

        pthread_mutex_lock(&host.guard);
        sure = stat != STAT_GRANTED || (host.restarts == before && !host.reclaiming);
        if (sure && stat == STAT_GRANTED)
            process_set_held(process, range, range->mode);
        pthread_mutex_unlock(&host.guard);
        if (sure)
            return stat;
    }
}

static void try_lock(struct process *process, const struct range *range)
{
    unsigned number = process->asking = log_invoked(process->number, "lock", range, 0);

    log_completed(number, result_of(lock_until_sure(process, range, 0)), 0);
}

/* Unlocks a range that is held in one mode. */
static void unlock(struct process *process, const struct range *range)
{
    unsigned number;
    bool held;

    begin_change();
    pthread_mutex_lock(&host.guard);
    held = holds_all(process, range); /* a reclaim may have been denied a moment ago */
    process_set_held(process, range, MODE_FREE);
    pthread_mutex_unlock(&host.guard);
    number = log_invoked(process->number, "unlock", range, 0);
    process->asking = held ? number : 0;
    ask(process, &process->connection, NLM_UNLOCK, range, 0);
    log_completed(number, "granted", 0);
}

/* ---- a blocking LOCK ---- */

static void end_wait(struct process *process, unsigned granting, const char *result)
{
    uint64_t at;

    pthread_mutex_lock(&host.guard);
    at = strcmp(result, "granted") == 0 ? process->granted_at : 0;
    process->waits = false;
    process->granted_at = 0;
    pthread_mutex_unlock(&host.guard);
    log_completed(granting, result, at);
}

/* Sends CANCEL. DENIED says that the process has the lock: it then releases it, and returns true.
 */
static bool cancel(struct process *process, unsigned granting, const struct range *range)
{
    unsigned number;
    uint32_t stat;

    begin_change();
    number = log_invoked(process->number, "cancel", range, 0);
    stat = ask(process, &process->connection, NLM_CANCEL, range, 0).stat;
    if (stat == STAT_DENIED) {
        pthread_mutex_lock(&host.guard);
        /* The process must count as holder, or a late callback would be refused. */
        process_set_held(process, range, range->mode);
        pthread_mutex_unlock(&host.guard);
    }
    end_wait(process, granting, stat == STAT_DENIED ? "granted" : "maybe");
    log_completed(number, result_of(stat), 0);
    if (stat == STAT_DENIED)
        unlock(process, range);
    return stat == STAT_DENIED;
}

/* Waits until the callback comes, the server restarts, or the time is over. True: the process holds
 * the lock now. */
static bool wait_for_grant(struct process *process, const struct range *range, unsigned restarts)
{
    static const unsigned pauses_ms[] = {5, 50, 500, 2000, FOREVER_MS};
    bool for_ever = host.patient && random_below(&process->dice, 2) == 0;
    unsigned pause_ms = pauses_ms[for_ever ? 4 : random_below(&process->dice, 4)];
    uint64_t until = now_ns() + 1000000ULL * pause_ms;
    struct timespec end = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    bool sure;

    pthread_mutex_lock(&host.guard);
    while (!process->granted_at && host.restarts == restarts && now_ns() < until)
        pthread_cond_timedwait(&host.news, &host.guard, &end);
    sure = process->granted_at && host.restarts == restarts && !host.reclaiming;
    if (sure)
        process_set_held(process, range, range->mode);
    else if (for_ever && !process->granted_at && host.restarts == restarts)
        log_fault("waits for ever, process", process->number, range->file);
    pthread_mutex_unlock(&host.guard);
    return sure;
}

/* Waits for a lock once. True: the lock was granted and given back before the process saw a
 * callback. */
static bool wait_once(struct process *process, const struct range *range)
{
    /* So long that the server repeats its callback. */
    static const struct timespec long_hold = {2, 0};
    uint64_t began;
    unsigned asking, granting, restarts;
    uint32_t stat;

    began = now_ns();
    asking = process->asking = log_invoked(process->number, "enter", range, began);
    granting = log_invoked(process->number, "grant", range, began);
    pthread_mutex_lock(&host.guard);
    process->waits = true;
    process->wanted = *range;
    process->granting = granting;
    process->granted_at = 0;
    restarts = host.restarts;
    pthread_mutex_unlock(&host.guard);
    stat = lock_until_sure(process, range, LOCK_BLOCK);
    if (stat != STAT_BLOCKED) {
        log_completed(asking, result_of(stat), 0);
        end_wait(process, granting, "maybe");
        return false;
    }
    log_completed(asking, "blocked", 0);
    if (wait_for_grant(process, range, restarts)) {
        end_wait(process, granting, "granted");
        if (host.forgetful && random_below(&process->dice, 4) == 0)
            nanosleep(&long_hold, NULL);
        return false;
    }
    return cancel(process, granting, range);
}

/* Waits for a lock. If callbacks are slow, one that the process did not see may arrive while it
 * waits for the same range again. */
static void wait(struct process *process, const struct range *range)
{
    while (wait_once(process, range) && host.slow_callbacks)
        ;
}

/* ---- random choices ---- */

static struct range random_range(struct process *process)
{
    static const unsigned more[] = {0, 0, 1, 1, 2, 5};
    struct range range = {.file = random_below(&process->dice, host.n_files),
                          .first = random_below(&process->dice, CELLS)};

    range.last = range.first + more[random_below(&process->dice, 6)];
    if (range.last >= CELLS)
        range.last = CELLS - 1;
    range.mode = random_below(&process->dice, 10) < 6 ? MODE_EXCLUSIVE : MODE_SHARED;
    return range;
}

static void unlock_some(struct process *process, const struct range *run)
{
    unsigned n = run->last - run->first + 1;
    unsigned a = run->first + random_below(&process->dice, n);
    unsigned b = run->first + random_below(&process->dice, n);
    struct range part = {run->file, a < b ? a : b, a < b ? b : a, run->mode};

    unlock(process, &part);
}

static void act(struct process *process)
{
    struct range runs[FILES_MAX * CELLS];
    struct range range = random_range(process);
    unsigned chance = random_below(&process->dice, 100);
    size_t n;

    pthread_mutex_lock(&host.guard);
    n = process_runs(process, runs);
    pthread_mutex_unlock(&host.guard);
    if (chance < 15)
        test(process, &range);
    else if (chance < 30 && n == 0)
        wait(process, &range);
    else if (chance < 65 && may_try(process, &range))
        try_lock(process, &range);
    else if (n > 0)
        unlock_some(process, &runs[random_below(&process->dice, (unsigned)n)]);
}

void *process_run(void *argument)
{
    struct process *process = argument;
    struct range runs[FILES_MAX * CELLS];
    size_t n;

    while (!host.stopping)
        act(process);
    begin_change();
    n = process_runs(process, runs);
    for (size_t i = 0; i < n; i++)
        unlock(process, &runs[i]);
    return NULL;
}
