/*
 * hostile SHAPE: one host attacks a server in that shape, while another one (the victim) locks and
 * unlocks, one request at a time. Prints one line of JSON: the victim's latencies while the
 * attacker is quiet and while it attacks, in turns; and for the most expensive of the attacker's
 * requests the processor time that the server's whole process took for all of it, sent alone, and
 * the most that its loop did while one request of the victim waited.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "hostile.h"

enum { ROUNDS = 3, PROBES = 40, SETUP_DEPTH = 32, SETUP_MAX_S = 60, ATTACKER_NICE = 5 };

enum phase { OFF, QUIET, ATTACKED, PHASES, ENDED };

static const char *victim_addr = "192.0.2.2", *attacker_addr = "192.0.2.3";
static double seconds = 3;

struct target target = {.host = "192.0.2.1", .port = 4045};

static struct measured {
    struct histogram histogram;
    uint64_t longest_ns;
    uint64_t refused;
} measured[PHASES];
static _Atomic enum phase phase = OFF;
static bool victim_reclaims;

/* ---- the victim ---- */

/* Gives the victim priority over all else: the two hosts share one processor of this machine, and
 * neither must wait for the other there. */
static void go_first(void)
{
    (void)pthread_setschedparam(pthread_self(), SCHED_FIFO,
                                &(struct sched_param){.sched_priority = 1});
}

static void *victim(void *ctx)
{
    struct peer *p = ctx;
    struct request request = {
        .proc = PROC_LOCK, .file = UINT32_MAX, .length = 10, .exclusive = true};
    enum phase now;

    go_first();
    while ((now = atomic_load(&phase)) != ENDED) {
        uint64_t begin = now_ns();
        struct measured *m = &measured[now];
        uint64_t ns;

        if (now == OFF) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        }
        request.reclaim = victim_reclaims;
        m->refused += peer_ask(p, &request) != STAT_GRANTED;
        ns = now_ns() - begin;
        histogram_add(&m->histogram, ns);
        if (ns > m->longest_ns)
            m->longest_ns = ns;
        request.proc = request.proc == PROC_LOCK ? PROC_UNLOCK : PROC_LOCK;
    }
    return NULL;
}

static void sleep_s(double s)
{
    struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};

    nanosleep(&t, NULL);
}

/* ---- the attacker ---- */

static void put_next(struct attack *attack, struct peer *p, maker make)
{
    struct request r;

    make(attack->next++, &r);
    peer_put(p, &r);
    attack->sent++;
}

static void send_many(struct attack *attack, struct peer *p, maker make, uint64_t count)
{
    while (count > 0) {
        for (unsigned i = 0; i < SETUP_DEPTH && count > 0; i++, count--)
            put_next(attack, p, make);
        peer_flush(p);
        peer_drain(p);
    }
}

/* Makes the state that is attacked, or as much of it as can be made in a minute. */
static void set_up(struct attack *attack, const struct shape *shape)
{
    uint64_t end = now_ns() + (uint64_t)SETUP_MAX_S * 1000000000;

    for (unsigned i = 0; i < 4 && shape->setup[i].make; i++) {
        attack->next = 0;
        while (attack->next < shape->setup[i].count && now_ns() < end) {
            uint64_t left = shape->setup[i].count - attack->next;

            send_many(attack, attack->peers[0], shape->setup[i].make,
                      left < SETUP_DEPTH ? left : SETUP_DEPTH);
        }
    }
    attack->next = 0;
}

static void attack_once(struct attack *attack, const struct shape *shape)
{
    unsigned n = shape->connections ? shape->connections : 1;

    for (unsigned c = 0; c < n; c++) {
        struct peer *p = attack->peers[c];

        for (unsigned i = 0; (shape->depth == 0 || i < shape->depth) && peer_has_room(p); i++)
            put_next(attack, p, shape->attack);
        peer_flush(p);
    }
    for (unsigned c = 0; c < n; c++)
        peer_drain(attack->peers[c]);
}

static struct job {
    struct attack attack;
    const struct shape *shape;
} job;

static void *attacker(void *ctx)
{
    struct job *j = ctx;

    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + ATTACKER_NICE);
    if (j->shape->run)
        j->shape->run(&j->attack);
    while (!j->shape->run && !atomic_load(&j->attack.stop))
        attack_once(&j->attack, j->shape);
    return NULL;
}

static void attack_for(double s)
{
    pthread_t thread;

    atomic_store(&job.attack.stop, false);
    if (pthread_create(&thread, NULL, attacker, &job) != 0)
        die("pthread_create");
    sleep_s(s);
    atomic_store(&job.attack.stop, true);
    pthread_join(thread, NULL);
}

/* ---- what a request costs ---- */

static uint64_t server_ns(void)
{
    struct timespec t;
    clockid_t clock;

    if (clock_getcpuclockid(target.pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
        die("the server's processor time");
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * The processor time of the server's loop, its first thread. The clock of another process is up to
 * date only while that process sleeps; otherwise it is as old as the last tick. A performance
 * counter is always up to date, where the kernel permits one.
 */
static uint64_t loop_ns(void)
{
    static int fd = -1;
    struct perf_event_attr task_clock = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof(task_clock), .config = PERF_COUNT_SW_TASK_CLOCK};
    uint64_t ns;

    if (fd < 0)
        fd = (int)syscall(SYS_perf_event_open, &task_clock, target.pid, -1, -1, 0);
    return fd >= 0 && read(fd, &ns, sizeof(ns)) == sizeof(ns) ? ns : server_ns();
}

/* Waits until the server does nothing more. */
static uint64_t settled_server_ns(void)
{
    uint64_t before = server_ns();
    uint64_t now = before;

    do {
        before = now;
        sleep_s(0.0005);
        now = server_ns();
    } while (now - before > 100000);
    return now;
}

/* Sends the request that is to be measured, after those that prepare for it. */
static uint64_t send_probe(struct attack *attack, const struct shape *shape,
                           uint64_t (*clock)(void))
{
    uint64_t before;

    if (shape->cycle > 0) {
        uint64_t done = attack->next % shape->cycle;

        if (done == shape->cycle - 1)
            done = (uint64_t)-1; /* completes this cycle, and the next one up to its last request */
        send_many(attack, attack->peers[0], shape->attack, shape->cycle - 1 - done);
    }
    settled_server_ns();
    before = clock();
    put_next(attack, attack->peers[0], shape->attack);
    peer_flush(attack->peers[0]);
    return before;
}

static uint64_t cost_in_all(struct attack *attack, const struct shape *shape,
                            struct peer *bystander)
{
    uint64_t before = send_probe(attack, shape, server_ns);

    (void)bystander;
    peer_drain(attack->peers[0]);
    return settled_server_ns() - before;
}

/* The most processor time that the server's loop took while one request of the bystander waited for
 * its answer. */
static uint64_t cost_at_once(struct attack *attack, const struct shape *shape,
                             struct peer *bystander)
{
    struct request request = {.proc = PROC_TEST, .file = UINT32_MAX, .length = 10};
    uint64_t before = send_probe(attack, shape, loop_ns);
    uint64_t most = 0;
    bool answered;

    do {
        uint64_t now;

        answered = peer_has_answer(attack->peers[0]);
        peer_ask(bystander, &request);
        now = loop_ns();
        if (now - before > most)
            most = now - before;
        before = now;
    } while (!answered);
    peer_drain(attack->peers[0]);
    return most;
}

static uint64_t dearest(struct attack *attack, const struct shape *shape, struct peer *bystander,
                        uint64_t (*cost)(struct attack *attack, const struct shape *shape,
                                         struct peer *bystander))
{
    unsigned probes = shape->cycle > 0 ? ROUNDS : PROBES;
    uint64_t most = 0;

    for (unsigned i = 0; i < probes && shape->attack; i++) {
        uint64_t ns = cost(attack, shape, bystander);

        if (ns > most)
            most = ns;
    }
    return most;
}

/* ---- the whole measurement ---- */

/* A lock of a third host, which never reclaims it, keeps the grace period open. */
static void begin_grace(struct peer *victim_peer)
{
    struct request held = {.proc = PROC_LOCK, .file = 77, .length = 1, .exclusive = true};
    struct peer *absent = peer_new("192.0.2.1", target.host, false, "absent");
    struct peer *local = peer_new("127.0.0.1", "127.0.0.1", false, "local");

    if (!absent || !local)
        die("connect");
    peer_ask(absent, &held);
    held.file = UINT32_MAX - 1;
    peer_ask(victim_peer, &held);
    peer_ask(local, &(struct request){.prog = NSM, .proc = PROC_SIMU_CRASH});
    peer_del(absent);
    peer_del(local);
    victim_reclaims = true;
}

static void print_phase(const char *name, const struct measured *m)
{
    printf(", \"%s\": {\"requests\": %" PRIu64 ", \"refused\": %" PRIu64
           ", \"p50_us\": %.1f, \"p99_us\": %.1f, \"longest_us\": %.1f}",
           name, m->histogram.count, m->refused,
           (double)histogram_quantile(&m->histogram, 0.5) / 1e3,
           (double)histogram_quantile(&m->histogram, 0.99) / 1e3, (double)m->longest_ns / 1e3);
}

static void print_result(const struct shape *shape, uint64_t all_ns, uint64_t once_ns)
{
    const uint64_t *answers = job.attack.peers[0]->answers;

    printf("{\"shape\": \"%s\", \"text\": \"%s\"", shape->name, shape->text);
    print_phase("quiet", &measured[QUIET]);
    print_phase("attacked", &measured[ATTACKED]);
    printf(", \"sent\": %" PRIu64 ", \"lists\": %lu, \"bytes_sent\": %" PRIu64
           ", \"bytes_back\": %" PRIu64 ", \"cost_us\": %.1f, \"at_once_us\": %.1f, \"answers\": [",
           job.attack.sent, atomic_load(&job.attack.lists), job.attack.bytes_sent,
           job.attack.bytes_back, (double)all_ns / 1e3, (double)once_ns / 1e3);
    for (unsigned i = 0; i <= STATS; i++)
        printf("%s%" PRIu64, i ? ", " : "", answers[i]);
    puts("]}");
}

static void run(const struct shape *shape)
{
    struct peer *p = peer_new(victim_addr, target.host, false, "victim");
    uint64_t all_ns;
    uint64_t once_ns;
    pthread_t thread;

    job.shape = shape;
    job.attack.from = attacker_addr;
    for (unsigned i = 0; i < (shape->connections ? shape->connections : 1); i++)
        job.attack.peers[i] = peer_new(attacker_addr, target.host, false, "attacker");
    if (!p || pthread_create(&thread, NULL, victim, p) != 0)
        die("victim");
    if (shape->silent)
        be_silent(attacker_addr);
    set_up(&job.attack, shape);
    if (shape->grace)
        begin_grace(p);
    for (unsigned i = 0; i < ROUNDS; i++) {
        atomic_store(&phase, QUIET);
        sleep_s(seconds / ROUNDS / 2);
        atomic_store(&phase, ATTACKED);
        attack_for(seconds / ROUNDS);
    }
    atomic_store(&phase, QUIET);
    sleep_s(seconds / ROUNDS / 2);
    atomic_store(&phase, ENDED);
    pthread_join(thread, NULL);
    go_first();
    all_ns = dearest(&job.attack, shape, p, cost_in_all);
    once_ns = dearest(&job.attack, shape, p, cost_at_once);
    print_result(shape, all_ns, once_ns);
    peer_del(p);
}

static _Noreturn void usage(void)
{
    fputs("usage: hostile [--host ADDRESS] [--port PORT] [--seconds S] --pid PID SHAPE\n"
          "shapes:\n",
          stderr);
    for (size_t i = 0; i < n_shapes; i++)
        fprintf(stderr, "  %-14s %s\n", shapes[i].name, shapes[i].text);
    exit(2);
}

static void list(void)
{
    for (size_t i = 0; i < n_shapes; i++)
        puts(shapes[i].name);
    exit(0);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"host", 1, NULL, 'h'},     {"port", 1, NULL, 'p'},
                                            {"pid", 1, NULL, 'i'},      {"seconds", 1, NULL, 's'},
                                            {"attacker", 1, NULL, 'a'}, {"victim", 1, NULL, 'v'},
                                            {"list", 0, NULL, 'l'},     {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'h':
            target.host = optarg;
            break;
        case 'p':
            target.port = (uint16_t)strtoul(optarg, NULL, 10);
            break;
        case 'i':
            target.pid = (int)strtol(optarg, NULL, 10);
            break;
        case 's':
            seconds = strtod(optarg, NULL);
            break;
        case 'a':
            attacker_addr = optarg;
            break;
        case 'v':
            victim_addr = optarg;
            break;
        case 'l':
            list();
            break;
        default:
            usage();
        }
    }
    for (size_t i = 0; i < n_shapes && optind < argc && target.pid > 0; i++) {
        if (strcmp(shapes[i].name, argv[optind]) == 0) {
            run(&shapes[i]);
            return 0;
        }
    }
    usage();
}
