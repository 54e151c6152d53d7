#include "sequence.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/assert.h"
#include "oracle.h"
#include "rng.h"
#include "server.h"

enum {
    STEPS_MIN = 12,
    STEPS_MAX = 40,
    LAYOUTS = 3 /* LAYOUTS: only those that off_t can express, which ends at 2^63 - 1 */
};
enum { WAKE_TRIES = 5000 };

static const struct sim_range everything = {0, 0, SIM_CELLS - 1};

struct wait {
    bool on;
    bool exclusive;
    struct sim_range range;
    unsigned ticket;
};

struct match {
    struct kernel *kernel;
    struct server *server;
    struct figures *figures;
    struct sim_rng rng;
    unsigned layout;
    unsigned tickets;
    /* What kernel and core both ought to hold; once they differ, what the core ought to hold. */
    struct sim_oracle held;
    struct sim_oracle kernel_held; /* what the kernel ought to hold, once they differ */
    struct wait waits[OWNERS];
    bool parted; /* kernel and core are in different states, for a permitted reason */
    bool failed;
    char log[16384];
    size_t log_len;
};

__attribute__((format(printf, 2, 3))) static void note(struct match *m, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(m->log + m->log_len, sizeof(m->log) - m->log_len, format, args);
    va_end(args);
    m->log_len += (size_t)n;
    if (m->log_len >= sizeof(m->log))
        m->log_len = sizeof(m->log) - 1;
}

static void check(struct match *m, bool good, const char *what)
{
    if (good)
        return;
    note(m, "  <-- %s\n", what);
    m->failed = true;
}

/* Kernel and core hold different locks from now on. At the end each is still compared with what it
 * ought to hold. */
static void part(struct match *m, uint64_t *counter, struct sim_oracle kernel,
                 struct sim_oracle core)
{
    m->parted = true;
    m->kernel_held = kernel;
    m->held = core;
    ++*counter;
}

/* ------------------------------------------------------------------ the rule */

static uint32_t holders(const struct sim_oracle *held, unsigned owner, struct sim_range range,
                        bool exclusive)
{
    uint32_t mask = 0;

    for (unsigned other = 0; other < OWNERS; other++) {
        for (unsigned c = range.first; c <= range.last && other != owner; c++) {
            uint8_t mode = held->mode[0][c][other];

            if (mode == SIM_EXCLUSIVE || (mode == SIM_SHARED && exclusive))
                mask |= 1u << other;
        }
    }
    return mask;
}

/* The owners (as bits) of requests in `waiting`, before this one, that conflict with it and do not
 * wait for its owner: behind those that do, its owner would wait for itself. */
static uint32_t ahead(const struct match *m, const struct sim_oracle *held, uint32_t waiting,
                      unsigned owner, const struct wait *request)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < OWNERS; i++) {
        const struct wait *w = &m->waits[i];

        if (i != owner && (waiting & 1u << i) && w->ticket < request->ticket &&
            (w->exclusive || request->exclusive) && sim_range_overlaps(w->range, request->range) &&
            !(holders(held, i, w->range, w->exclusive) & 1u << owner))
            mask |= 1u << i;
    }
    return mask;
}

static uint32_t all_waiting(const struct match *m)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < OWNERS; i++)
        mask |= m->waits[i].on ? 1u << i : 0;
    return mask;
}

/* Follows edges to owners that hold a conflicting lock, until nothing new is found. */
static bool reaches(const struct match *m, uint32_t mask, unsigned target)
{
    uint32_t before;

    do {
        before = mask;
        for (unsigned i = 0; i < OWNERS; i++) {
            const struct wait *w = &m->waits[i];

            if (w->on && (mask & 1u << i))
                mask |= holders(&m->held, i, w->range, w->exclusive);
        }
    } while (mask != before);
    return mask & 1u << target;
}

static bool is_several(uint32_t mask)
{
    return (mask & (mask - 1)) != 0;
}

/* The kernel follows only one of several conflicting locks, so it may miss a cycle. */
static bool kernel_may_miss(const struct match *m, uint32_t in_the_way)
{
    bool several = is_several(in_the_way);

    for (unsigned i = 0; i < OWNERS; i++) {
        const struct wait *w = &m->waits[i];

        if (w->on)
            several = several || is_several(holders(&m->held, i, w->range, w->exclusive));
    }
    return several;
}

/* ------------------------------------------------------------------ asking both */

static struct flock flock_of(const struct match *m, struct sim_range range, short type)
{
    uint64_t first = sim_first_byte(m->layout, range);
    bool to_end = range.last == SIM_CELLS - 1;

    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)first,
                          .l_len =
                              to_end ? 0 : (off_t)(sim_last_byte(m->layout, range) - first + 1)};
}

static struct hf_answer ask_core(struct match *m, server_call call, unsigned owner,
                                 const struct wait *request, bool block)
{
    struct flock lock = flock_of(m, request->range, F_WRLCK);
    struct server_ask ask = {.owner = owner,
                             .offset = (uint64_t)lock.l_start,
                             .length = (uint64_t)lock.l_len,
                             .exclusive = request->exclusive,
                             .block = block};

    return server_ask(m->server, call, &ask);
}

static enum hf_stat kernel_stat(const struct kernel *kernel, unsigned owner)
{
    if (kernel_waits(kernel, owner))
        return HF_STAT_BLOCKED;
    switch (kernel_result(kernel, owner)) {
    case 0:
        return HF_STAT_GRANTED;
    case EAGAIN:
    case EACCES:
        return HF_STAT_DENIED;
    case EDEADLK:
        return HF_STAT_DEADLCK;
    default:
        return HF_STAT_FAILED;
    }
}

static uint32_t kernel_waiting(const struct kernel *kernel)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < OWNERS; i++)
        mask |= kernel_waits(kernel, i) ? 1u << i : 0;
    return mask;
}

/* ------------------------------------------------------------------ whose turn it was */

/* Who decides. In the core, a grant after a wait only adds: what its owner holds exclusively stays
 * so. */
enum who { THE_KERNEL, THE_CORE };

static void grant(struct sim_oracle *held, unsigned owner, const struct wait *w, enum who who)
{
    for (uint8_t c = w->range.first; c <= w->range.last; c++) {
        if (who == THE_CORE && held->mode[0][c][owner] == SIM_EXCLUSIVE)
            continue;
        sim_oracle_set(held, owner, (struct sim_range){0, c, c},
                       w->exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
    }
}

/* What is held if, of all that waited, only these requests still wait. */
static struct sim_oracle held_when(const struct match *m, uint32_t waiting, enum who who)
{
    struct sim_oracle held = m->held;

    for (unsigned i = 0; i < OWNERS; i++) {
        const struct wait *w = &m->waits[i];

        if (w->on && !(waiting & 1u << i))
            grant(&held, i, w, who);
    }
    return held;
}

/* True if no held locks conflict, and every waiting request has a lock, or (in the core) a place in
 * the queue, to wait for. */
static bool is_possible(const struct match *m, uint32_t waiting, enum who who)
{
    struct sim_oracle held = held_when(m, waiting, who);

    for (unsigned i = 0; i < OWNERS; i++) {
        const struct wait *w = &m->waits[i];

        for (uint8_t c = 0; c < SIM_CELLS; c++) {
            uint8_t mode = held.mode[0][c][i];

            if (mode != SIM_FREE &&
                holders(&held, i, (struct sim_range){0, c, c}, mode == SIM_EXCLUSIVE) != 0)
                return false;
        }
        if (w->on && (waiting & 1u << i) && !holders(&held, i, w->range, w->exclusive) &&
            !(who == THE_CORE && ahead(m, &held, waiting, i, w)))
            return false;
    }
    return true;
}

/* True if the kernel and the core hold different locks when only these requests still wait. */
static bool differ(const struct match *m, uint32_t waiting)
{
    struct sim_oracle kernel = held_when(m, waiting, THE_KERNEL);
    struct sim_oracle core = held_when(m, waiting, THE_CORE);

    for (unsigned owner = 0; owner < OWNERS; owner++) {
        for (unsigned c = 0; c < SIM_CELLS; c++) {
            if (kernel.mode[0][c][owner] != core.mode[0][c][owner])
                return true;
        }
    }
    return false;
}

/* Compares the waiting requests: the last step may have granted some. */
static void compare_waiting(struct match *m)
{
    uint32_t kernel = kernel_waiting(m->kernel);
    uint32_t core = server_waits(m->server);
    uint32_t before = all_waiting(m);

    /* On a busy machine, a process that the kernel has woken may need a moment to leave its call.
     */
    for (unsigned tries = 0; tries < WAKE_TRIES && !is_possible(m, kernel, THE_KERNEL); tries++) {
        (void)usleep(1000);
        kernel = kernel_waiting(m->kernel);
    }
    check(m, ((kernel | core) & ~before) == 0, "a request waits that did not ask");
    check(m, is_possible(m, kernel, THE_KERNEL), "the kernel let a request wait for nothing");
    check(m, is_possible(m, core, THE_CORE), "the core let a request wait for nothing");
    for (unsigned i = 0; i < OWNERS; i++) {
        if ((before & ~kernel & 1u << i) && kernel_result(m->kernel, i) != 0)
            check(m, false, "the kernel gave a request up that waited");
    }
    if (m->failed)
        return;
    if (kernel != core) {
        note(m, "  now wait: kernel %x, core %x\n", kernel, core);
        part(m, &m->figures->parted_by_order, held_when(m, kernel, THE_KERNEL),
             held_when(m, core, THE_CORE));
        return;
    }
    if (differ(m, core)) {
        note(m, "  the kernel weakens what an owner held, the core does not\n");
        part(m, &m->figures->parted_by_grant, held_when(m, kernel, THE_KERNEL),
             held_when(m, core, THE_CORE));
        return;
    }
    m->held = held_when(m, core, THE_CORE);
    for (unsigned i = 0; i < OWNERS; i++) {
        if (m->waits[i].on && !(core & 1u << i)) {
            note(m, "  %u is granted\n", i);
            m->figures->granted_later++;
            m->waits[i].on = false;
        }
    }
}

/* ------------------------------------------------------------------ the operations */

static const char *name_of(enum hf_stat stat)
{
    static const char *const names[] = {"GRANTED", "DENIED", "NOLOCKS", "BLOCKED", "GRACE",
                                        "DEADLCK", "ROFS",   "STALE",   "FBIG",    "FAILED"};

    return names[stat];
}

/* True if the request weakens what its owner holds: then the kernel may have granted another
 * request because of it, and cannot undo that. */
static bool weakens(const struct match *m, unsigned owner, const struct wait *request)
{
    for (unsigned c = request->range.first; c <= request->range.last; c++) {
        if (!request->exclusive && m->held.mode[0][c][owner] == SIM_EXCLUSIVE)
            return true;
    }
    return false;
}

/* The kernel has granted a request that waits for its turn in the core: both sides take it back, so
 * that the sequence goes on with equal states. */
static void take_back_turn(struct match *m, unsigned owner, const struct wait *request)
{
    static const short types[] = {F_UNLCK, F_RDLCK, F_WRLCK};

    for (uint8_t c = request->range.first; c <= request->range.last; c++) {
        struct flock before =
            flock_of(m, (struct sim_range){0, c, c}, types[m->held.mode[0][c][owner]]);

        kernel_ask(m->kernel, owner, F_SETLK, &before);
        check(m, kernel_result(m->kernel, owner) == 0, "the kernel did not take it back");
    }
    check(m, ask_core(m, hf_core_cancel, owner, request, false).stat == HF_STAT_GRANTED,
          "the core did not cancel");
    note(m, "  %u takes it back\n", owner);
    m->figures->turns++;
}

static void grant_in_turn(struct match *m, unsigned owner, const struct wait *request)
{
    struct sim_oracle kernel = m->held;

    if (!weakens(m, owner, request)) {
        take_back_turn(m, owner, request);
        return;
    }
    grant(&kernel, owner, request, THE_KERNEL);
    part(m, &m->figures->parted_by_turn, kernel, m->held);
}

/* The kernel lets a request wait that closes a cycle: the process is interrupted. */
static void take_back_deadlock(struct match *m, unsigned owner)
{
    kernel_interrupt(m->kernel, owner);
    check(m, kernel_result(m->kernel, owner) == EINTR, "the kernel was not interrupted");
    note(m, "  %u is interrupted\n", owner);
    m->figures->missed++;
}

/* Judges a blocking request (NLM-03, NLM-06): returns what both sides did, or notes that they
 * differ. A request that was taken back counts as denied. */
static enum hf_stat judge_blocking(struct match *m, unsigned owner, const struct wait *request,
                                   enum hf_stat kernel, enum hf_stat core)
{
    uint32_t in_the_way = holders(&m->held, owner, request->range, request->exclusive);

    if (in_the_way == 0) {
        uint32_t turn = ahead(m, &m->held, all_waiting(m), owner, request);

        check(m, kernel == HF_STAT_GRANTED, "the kernel ought to grant");
        if (core == HF_STAT_BLOCKED && turn != 0) {
            check(m, !reaches(m, turn, owner), "waiting for its turn, it waits for itself");
            grant_in_turn(m, owner, request);
            return HF_STAT_DENIED;
        } else {
            check(m, core == HF_STAT_GRANTED, "the core ought to grant");
        }
        return HF_STAT_GRANTED;
    }
    if (reaches(m, in_the_way, owner)) {
        check(m, core == HF_STAT_DEADLCK, "the core ought to see a deadlock");
        if (kernel == HF_STAT_BLOCKED && kernel_may_miss(m, in_the_way))
            take_back_deadlock(m, owner);
        else
            check(m, kernel == HF_STAT_DEADLCK, "the kernel ought to see a deadlock");
        return HF_STAT_DEADLCK;
    }
    check(m, kernel == HF_STAT_BLOCKED, "the kernel ought to let it wait");
    check(m, core == HF_STAT_BLOCKED, "the core ought to let it wait");
    return HF_STAT_BLOCKED;
}

static enum hf_stat judge(struct match *m, unsigned owner, const struct wait *request, bool block,
                          enum hf_stat kernel, enum hf_stat core)
{
    enum hf_stat due;

    if (block)
        return judge_blocking(m, owner, request, kernel, core);
    due = holders(&m->held, owner, request->range, request->exclusive) ? HF_STAT_DENIED
                                                                       : HF_STAT_GRANTED;
    check(m, kernel == due, "the kernel ought to say otherwise");
    check(m, core == due, "the core ought to say otherwise");
    return due;
}

static void lock(struct match *m, unsigned owner, struct wait request, bool block)
{
    struct flock l = flock_of(m, request.range, request.exclusive ? F_WRLCK : F_RDLCK);
    enum hf_stat core, kernel, both;

    kernel_ask(m->kernel, owner, block ? F_SETLKW : F_SETLK, &l);
    core = ask_core(m, hf_core_lock, owner, &request, block).stat;
    kernel = kernel_stat(m->kernel, owner);
    note(m, "%u %s %s %u-%u: kernel %s, core %s\n", owner, block ? "F_SETLKW" : "F_SETLK",
         request.exclusive ? "write" : "read", request.range.first, request.range.last,
         name_of(kernel), name_of(core));
    both = judge(m, owner, &request, block, kernel, core);
    m->figures->locks++;
    if (m->failed || m->parted)
        return;
    if (both == HF_STAT_GRANTED)
        sim_oracle_set(&m->held, owner, request.range,
                       request.exclusive ? SIM_EXCLUSIVE : SIM_SHARED);
    if (both == HF_STAT_BLOCKED)
        m->waits[owner] = request;
    m->figures->denied += both == HF_STAT_DENIED;
    m->figures->waited += both == HF_STAT_BLOCKED;
    m->figures->deadlocks += both == HF_STAT_DEADLCK;
    compare_waiting(m);
}

static void unlock(struct match *m, unsigned owner, struct wait request)
{
    struct flock l = flock_of(m, request.range, F_UNLCK);

    kernel_ask(m->kernel, owner, F_SETLK, &l);
    note(m, "%u unlocks %u-%u\n", owner, request.range.first, request.range.last);
    check(m, kernel_result(m->kernel, owner) == 0, "the kernel did not unlock");
    check(m, ask_core(m, hf_core_unlock, owner, &request, false).stat == HF_STAT_GRANTED,
          "the core did not unlock");
    sim_oracle_set(&m->held, owner, request.range, SIM_FREE);
    compare_waiting(m);
}

/* A signal makes the client take its request back. */
static void interrupt(struct match *m, unsigned owner)
{
    const struct wait request = m->waits[owner];

    m->waits[owner].on = false;
    m->figures->interrupted++;
    note(m, "%u is interrupted\n", owner);
    kernel_interrupt(m->kernel, owner);
    check(m, kernel_result(m->kernel, owner) == EINTR, "the kernel was not interrupted");
    check(m, ask_core(m, hf_core_cancel, owner, &request, false).stat == HF_STAT_GRANTED,
          "the core did not cancel");
    compare_waiting(m);
}

/* True if the owner holds exactly these bytes in this mode, and not one more (NLM-04). */
static bool is_lock(const struct match *m, int owner, bool exclusive, uint64_t first, bool to_end,
                    uint64_t length)
{
    struct sim_range range = {0};
    enum sim_mode mode = SIM_FREE;

    while (owner >= 0 && owner < OWNERS &&
           sim_oracle_next_run(&m->held, (unsigned)owner, &range, &mode)) {
        if (sim_first_byte(m->layout, range) == first && (range.last == SIM_CELLS - 1) == to_end &&
            (mode == SIM_EXCLUSIVE) == exclusive &&
            (to_end || sim_last_byte(m->layout, range) - first + 1 == length))
            return true;
    }
    return false;
}

static void test(struct match *m, unsigned owner, struct wait request)
{
    struct flock l = flock_of(m, request.range, request.exclusive ? F_WRLCK : F_RDLCK);
    bool is_free = holders(&m->held, owner, request.range, request.exclusive) == 0;
    struct hf_answer core;
    int holder;

    kernel_ask(m->kernel, owner, F_GETLK, &l);
    holder = kernel_found(m->kernel, owner, &l);
    core = ask_core(m, hf_core_test, owner, &request, false);
    note(m, "%u tests %s %u-%u: kernel %d, core %s\n", owner, request.exclusive ? "write" : "read",
         request.range.first, request.range.last, holder, name_of(core.stat));
    m->figures->tests++;
    check(m, is_free == (l.l_type == F_UNLCK), "the kernel ought to find otherwise");
    check(m, core.stat == (is_free ? HF_STAT_GRANTED : HF_STAT_DENIED),
          "the core ought to find otherwise");
    if (is_free || m->failed)
        return;
    check(m,
          is_lock(m, holder, l.l_type == F_WRLCK, (uint64_t)l.l_start, l.l_len == 0,
                  (uint64_t)l.l_len),
          "the kernel names a lock that is not there");
    check(m,
          is_lock(m, (int)server_holder(&core), core.holder.exclusive, core.holder.offset,
                  core.holder.length == 0, core.holder.length),
          "the core names a lock that is not there");
}

static struct wait draw(struct match *m)
{
    uint8_t first = (uint8_t)sim_rng_below(&m->rng, SIM_CELLS);
    uint8_t more = (uint8_t)(sim_rng_below(&m->rng, 4) * sim_rng_below(&m->rng, 2));

    return (struct wait){
        .on = true,
        .exclusive = sim_rng_below(&m->rng, 2),
        .range = {0, first, first + more < SIM_CELLS ? (uint8_t)(first + more) : SIM_CELLS - 1},
        .ticket = ++m->tickets};
}

static void step(struct match *m)
{
    unsigned owner = sim_rng_below(&m->rng, OWNERS);
    struct wait request = draw(m);
    unsigned what = sim_rng_below(&m->rng, 20);

    if (m->waits[owner].on) {
        if (what < 4)
            interrupt(m, owner);
        return;
    }
    m->figures->operations++;
    if (what < 8)
        lock(m, owner, request, true);
    else if (what < 12)
        lock(m, owner, request, false);
    else if (what < 16)
        unlock(m, owner, request);
    else if (what < 17)
        unlock(m, owner, (struct wait){.range = everything});
    else
        test(m, owner, request);
}

/* Compares every cell, as an owner sees it that holds nothing; kernel and core are each compared
 * with what they ought to hold. */
static void compare_cells(struct match *m)
{
    for (uint8_t c = 0; c < SIM_CELLS; c++) {
        for (int exclusive = 0; exclusive < 2; exclusive++) {
            struct wait cell = {.exclusive = exclusive, .range = {0, c, c}};
            struct flock l = flock_of(m, cell.range, 0);
            bool locked = holders(&m->held, OWNERS, cell.range, exclusive) != 0;
            bool in_kernel =
                holders(m->parted ? &m->kernel_held : &m->held, OWNERS, cell.range, exclusive) != 0;

            check(m,
                  kernel_is_locked(m->kernel, exclusive ? F_WRLCK : F_RDLCK, l.l_start, l.l_len) ==
                      in_kernel,
                  "the kernel holds something else");
            check(m,
                  (ask_core(m, hf_core_test, OWNERS, &cell, false).stat == HF_STAT_DENIED) ==
                      locked,
                  "the core holds something else");
        }
    }
}

static void clean_up(struct match *m)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

    for (unsigned i = 0; i < OWNERS; i++) {
        if (kernel_waits(m->kernel, i))
            kernel_interrupt(m->kernel, i);
    }
    for (unsigned i = 0; i < OWNERS; i++)
        kernel_ask(m->kernel, i, F_SETLK, &all);
    server_free(m->server);
}

bool sequence_run(struct kernel *kernel, uint64_t seed, bool with_keeper, struct figures *figures,
                  const char **why)
{
    static struct match m;
    unsigned steps;

    m = (struct match){.kernel = kernel, .server = server_new(with_keeper), .figures = figures};
    sim_rng_init(&m.rng, seed);
    m.layout = sim_rng_below(&m.rng, LAYOUTS);
    steps = sim_rng_range(&m.rng, STEPS_MIN, STEPS_MAX);
    note(&m, "seed %" PRIu64 ", layout %u\n", seed, m.layout);
    for (unsigned i = 0; i < steps && !m.failed && !m.parted; i++)
        step(&m);
    if (!m.failed)
        compare_cells(&m);
    clean_up(&m);
    figures->sequences++;
    *why = m.log;
    return !m.failed;
}
