/* hf-player: the client host and its main program; see player.h. */
#include "player.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "hf-player [--files N] [--processes N] [--change-modes] [--upgrades] [--false-reclaims]\n"
    "          [--patient] [--forgetful] [--slow-callbacks] [--handles FILE] HOST LIFE OUR_ADDRESS "
    "SERVER_ADDRESS "
    "SEED LOG\n"
    "\n"
    "Plays one client host until SIGTERM, and ends when all requests in flight are answered. It\n"
    "says `ready` when the server knows that the host has restarted, and begins when its standard\n"
    "input has a line or ends.\n"
    "\n"
    "  --change-modes     also lock again, in another mode, what is held\n"
    "  --upgrades         the same, from shared to exclusive only, which a restart of the server\n"
    "                     cannot make ambiguous\n"
    "  --false-reclaims   after each restart of the server reclaim something at random\n"
    "  --patient          some requests wait until they are granted, which must happen\n"
    "  --forgetful        as Linux: a callback for what is no longer waited for is denied, even\n"
    "                     if the lock is held; and the answer to some callbacks is lost\n"
    "  --slow-callbacks   some callbacks arrive late, when the process may wait again for what\n"
    "                     it has given back meanwhile\n";

struct host host = {
    .n_files = 4, .n_processes = 4, .guard = PTHREAD_MUTEX_INITIALIZER, .server_state = 0};

static int log_fd;
static atomic_uint log_count;

uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void die(const char *what)
{
    fprintf(stderr, "hf-player: %s: %s\n", what, strerror(errno));
    _exit(EXIT_FAILURE);
}

/* ---- dice ---- */

uint64_t random_seed(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
    return hash;
}

unsigned random_below(uint64_t *dice, unsigned n)
{
    uint64_t z = *dice += 0x9e3779b97f4a7c15; /* splitmix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (unsigned)((z ^ z >> 31) % n);
}

/* ---- the log: one system call per line, so that the lines of a killed process are in it ---- */

void log_open(const char *path)
{
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0)
        die(path);
}

static void log_write(const char *line, int len)
{
    if (write(log_fd, line, (size_t)len) != len)
        die("log");
}

static char mode_letter(enum mode mode)
{
    return mode == MODE_EXCLUSIVE ? 'x' : 's';
}

unsigned log_invoked(unsigned process, const char *kind, const struct range *range, uint64_t at)
{
    unsigned number = atomic_fetch_add(&log_count, 1) + 1;
    char line[128];

    log_write(line, snprintf(line, sizeof(line), "i %u %u f%u %s %u %u %c %" PRIu64 "\n", number,
                             process, range->file, kind, range->first, range->last,
                             mode_letter(range->mode), at ? at : now_ns()));
    return number;
}

unsigned log_crash(void)
{
    unsigned number = atomic_fetch_add(&log_count, 1) + 1;
    char line[64];

    log_write(line, snprintf(line, sizeof(line), "i %u * * crash 0 %u x %" PRIu64 "\n", number,
                             CELLS - 1, now_ns()));
    return number;
}

void log_completed(unsigned number, const char *result, uint64_t at)
{
    char line[64];

    log_write(line, snprintf(line, sizeof(line), "c %u %" PRIu64 " %s\n", number,
                             at ? at : now_ns(), result));
}

void log_refused(unsigned number)
{
    char line[64];

    log_write(line, snprintf(line, sizeof(line), "r %u %" PRIu64 "\n", number, now_ns()));
}

void log_unanswered(unsigned number)
{
    char line[32];

    if (number)
        log_write(line, snprintf(line, sizeof(line), "u %u\n", number));
}

void log_answered(unsigned number)
{
    char line[64];

    log_write(line, snprintf(line, sizeof(line), "a %u %" PRIu64 "\n", number, now_ns()));
}

void log_denied_by(unsigned number, unsigned by_host, unsigned by_process, const struct range *held)
{
    char line[96];

    log_write(line, snprintf(line, sizeof(line), "c %u %" PRIu64 " denied %u.%u %u %u %c\n", number,
                             now_ns(), by_host, by_process, held->first, held->last,
                             mode_letter(held->mode)));
}

void log_fault(const char *what, long now, long before)
{
    char line[96];

    log_write(line, snprintf(line, sizeof(line), "x %" PRIu64 " %s %ld after %ld\n", now_ns(), what,
                             now, before));
}

/* ---- restarts of the server ---- */

/* The same notice may come twice. A state number below an earlier one is written to the log
 * (NSM-06). */
void host_told_of_restart(int32_t state)
{
    if (state < host.server_state)
        log_fault("state", state, host.server_state);
    if (state != host.server_state)
        host.restarts++;
    host.server_state = state;
    pthread_cond_broadcast(&host.news);
}

static void reclaim(struct connection *connection, struct process *process,
                    const struct range *range)
{
    unsigned number = log_invoked(process->number, "reclaim", range, 0);
    struct answer answer = ask(process, connection, NLM_LOCK, range, LOCK_RECLAIM);
    bool granted = answer.stat == STAT_GRANTED;

    pthread_mutex_lock(&host.guard);
    process_set_held(process, range, granted ? range->mode : MODE_FREE);
    pthread_mutex_unlock(&host.guard);
    log_completed(number, granted ? "granted" : "denied", 0);
}

static void reclaim_all(struct connection *connection)
{
    static struct range runs[PROCESSES_MAX][FILES_MAX * CELLS];
    size_t n[PROCESSES_MAX];

    pthread_mutex_lock(&host.guard);
    for (unsigned p = 0; p < host.n_processes; p++)
        n[p] = process_runs(&host.processes[p], runs[p]);
    pthread_mutex_unlock(&host.guard);
    for (unsigned p = 0; p < host.n_processes; p++) {
        for (size_t i = 0; i < n[p]; i++)
            reclaim(connection, &host.processes[p], &runs[p][i]);
    }
}

/* Reclaims one random cell that the process does not hold. */
static void reclaim_falsely(struct connection *connection)
{
    struct process *process = &host.processes[random_below(&host.dice, host.n_processes)];
    unsigned cell = random_below(&host.dice, CELLS);
    struct range range = {random_below(&host.dice, host.n_files), cell, cell, MODE_EXCLUSIVE};

    if (process->held[range.file][cell] == MODE_FREE)
        reclaim(connection, process, &range);
}

/* Reclaims as a kernel's reclaimer does: no process may begin a request that changes something
 * meanwhile. */
static void *reclaim_for_ever(void *unused)
{
    struct connection connection = {.fd = -1};
    unsigned told = 0;

    (void)unused;
    for (;;) {
        pthread_mutex_lock(&host.guard);
        while (host.restarts == told)
            pthread_cond_wait(&host.news, &host.guard);
        told = host.restarts;
        host.reclaiming = true;
        pthread_mutex_unlock(&host.guard);
        reclaim_all(&connection);
        if (host.false_reclaims)
            reclaim_falsely(&connection);
        pthread_mutex_lock(&host.guard);
        host.reclaiming = host.restarts > told;
        pthread_cond_broadcast(&host.news);
        pthread_mutex_unlock(&host.guard);
    }
    return NULL;
}

/* ---- start and end ---- */

static void on_term(int number)
{
    (void)number;
    host.stopping = true;
}

static unsigned number_of(const char *text, unsigned most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*end || n > most) {
        fprintf(stderr, "hf-player: %s is not a number up to %u\n", text, most);
        exit(EXIT_FAILURE);
    }
    return (unsigned)n;
}

/* Reads file handles, one per line, in hexadecimal digits; without this file, names serve as
 * handles. */
static void read_handles(const char *path)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[160];

    if (path && !file)
        die(path);
    for (unsigned f = 0; f < host.n_files; f++) {
        struct handle *handle = &host.handles[f];

        handle->len = (uint32_t)snprintf((char *)handle->bytes, sizeof(handle->bytes), "f%u", f);
        if (!file || !fgets(line, sizeof(line), file))
            continue;
        for (handle->len = 0;
             handle->len < sizeof(handle->bytes) &&
             sscanf(line + 2 * (size_t)handle->len, "%2hhx", &handle->bytes[handle->len]) == 1;)
            handle->len++;
    }
    if (file)
        (void)fclose(file);
}

static void read_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"files", required_argument, NULL, 'f'},    {"processes", required_argument, NULL, 'p'},
        {"change-modes", no_argument, NULL, 'm'},   {"upgrades", no_argument, NULL, 'u'},
        {"false-reclaims", no_argument, NULL, 'r'}, {"patient", no_argument, NULL, 'w'},
        {"forgetful", no_argument, NULL, 'l'},      {"slow-callbacks", no_argument, NULL, 's'},
        {"handles", required_argument, NULL, 'h'},  {0}};
    const char *handles = NULL;
    char seed[256];
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        if (option == 'f')
            host.n_files = number_of(optarg, FILES_MAX);
        else if (option == 'p')
            host.n_processes = number_of(optarg, PROCESSES_MAX);
        else if (option == 'm')
            host.change_modes = true;
        else if (option == 'u')
            host.upgrades = true;
        else if (option == 'r')
            host.false_reclaims = true;
        else if (option == 'w')
            host.patient = true;
        else if (option == 'l')
            host.forgetful = true;
        else if (option == 's')
            host.slow_callbacks = true;
        else if (option == 'h')
            handles = optarg;
        else
            break;
    }
    if (option >= 0 || argc - optind != 6) {
        fputs(help, stderr);
        exit(EXIT_FAILURE);
    }
    read_handles(handles);
    argv += optind;
    host.number = number_of(argv[0], 255);
    host.state = (int32_t)(2 * number_of(argv[1], 1000000) + 1);
    host.address = argv[2];
    host.server = argv[3];
    (void)snprintf(host.name, sizeof(host.name), "host%u.example", host.number);
    (void)snprintf(seed, sizeof(seed), "%s/%u/%s", argv[4], host.number, argv[1]);
    host.dice = random_seed(seed);
    for (unsigned p = 0; p < host.n_processes; p++) {
        host.processes[p] = (struct process){.number = p, .connection.fd = -1};
        (void)snprintf(seed, sizeof(seed), "%s/%u/%s/%u", argv[4], host.number, argv[1], p);
        host.processes[p].dice = random_seed(seed);
    }
    log_open(argv[5]);
}

static void make_news(void)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&host.news, &monotonic);
}

int main(int argc, char **argv)
{
    pthread_t threads[PROCESSES_MAX], reclaimer;

    read_arguments(argc, argv);
    (void)signal(SIGTERM, on_term);
    (void)signal(SIGPIPE, SIG_IGN);
    make_news();
    services_start();
    if (host.state > 1)
        tell_of_our_crash();
    puts("ready");
    (void)fflush(stdout);
    (void)getchar();
    pthread_create(&reclaimer, NULL, reclaim_for_ever, NULL);
    for (unsigned p = 0; p < host.n_processes; p++) {
        if (pthread_create(&threads[p], NULL, process_run, &host.processes[p]))
            die("thread");
    }
    for (unsigned p = 0; p < host.n_processes; p++)
        pthread_join(threads[p], NULL);
    _exit(EXIT_SUCCESS); /* the thread of the reclaimer never ends by itself */
}
