/*
 * hf-player: one client host of a history. Some processes test, lock, wait, cancel and unlock at
 * random, each over a TCP connection of its own, as a kernel would: a request is repeated until it
 * is answered, and locks are reclaimed when the server says that it has restarted. Every request is
 * written down before it is sent, and again when its answer has arrived (history.py reads that).
 *
 * A process is a thread (player_process.c) that waits for its answers (player_wire.c); one more
 * thread answers what the server asks of this host (player_services.c), and one reclaims
 * (player.c). What they share is guarded by the mutex of the host.
 */
#ifndef HF_HISTORIES_PLAYER_H
#define HF_HISTORIES_PLAYER_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CELLS = 8, /* cells of a file; each is one byte, and the last one reaches to the end */
    FILES_MAX = 32,
    PROCESSES_MAX = 16,
    SERVICE_PORT = 4001, /* where the server finds the host's lock manager and status monitor */
    SERVER_PORT = 4045,
};

enum { NLM = 100021, NSM = 100024, RPCBIND = 100000 };
enum { NLM_TEST = 1, NLM_LOCK, NLM_CANCEL, NLM_UNLOCK, NLM_GRANTED };
enum { NSM_STAT = 1, NSM_NOTIFY = 6 };
enum { STAT_GRANTED, STAT_DENIED, STAT_NOLOCKS, STAT_BLOCKED, STAT_GRACE };

enum mode { MODE_FREE, MODE_SHARED, MODE_EXCLUSIVE };

struct range {
    unsigned file, first, last;
    enum mode mode;
};

struct connection {
    int fd; /* negative: none now */
};

struct process {
    unsigned number;
    uint64_t dice;
    uint8_t held[FILES_MAX][CELLS]; /* enum mode */
    struct connection connection;
    unsigned asking; /* the number of the LOCK or UNLOCK in flight; 0: see log_unanswered() */
    bool waits;
    struct range wanted;
    unsigned granting; /* the number of the grant that the process waits for, or waited for last */
    uint64_t granted_at; /* when the callback came; 0: it has not come yet */
};

struct handle {
    uint32_t len;
    uint8_t bytes[64];
};

struct host {
    unsigned number;
    const char *address, *server;
    char name[32];
    int32_t state;
    unsigned n_files, n_processes;
    /* The handles of the files; "f0" and so on, unless a file names others. */
    struct handle handles[FILES_MAX];
    bool change_modes, upgrades, false_reclaims, patient, forgetful, slow_callbacks;
    struct process processes[PROCESSES_MAX];
    uint64_t dice;

    /* Guards everything below, and held, waits and granted_at of processes. */
    pthread_mutex_t guard;
    pthread_cond_t news;
    unsigned restarts; /* how often the server has restarted, as far as this host was told */
    int32_t server_state;
    bool reclaiming;
    volatile sig_atomic_t stopping; /* set by SIGTERM */
};

extern struct host host;

uint64_t now_ns(void);
_Noreturn void die(const char *what);
uint64_t random_seed(const char *text);
unsigned random_below(uint64_t *dice, unsigned n);

/* ---- what is written to the log ---- */

void log_open(const char *path);
/* Logs that a process asks, and returns the number of its operation. at 0: now. */
unsigned log_invoked(unsigned process, const char *kind, const struct range *range, uint64_t at);
void log_completed(unsigned number, const char *result, uint64_t at);
void log_denied_by(unsigned number, unsigned by_host, unsigned by_process,
                   const struct range *held);
/* Logs that the server could not make the lock durable; the request is repeated. */
void log_refused(unsigned number);
/* Logs that an UNLOCK has no answer, and will be sent again: the server has crashed, or could not
 * make the UNLOCK durable. number 0: what it released is not known. */
void log_unanswered(unsigned number);
/* Logs that this host has answered a GRANTED callback; until then the server may give the waiter
 * up. */
void log_answered(unsigned number);
unsigned log_crash(void);
void log_fault(const char *what, long now, long before);

/* ---- player_wire.c: requests ---- */

struct answer {
    uint32_t stat;
    unsigned by_host, by_process; /* TEST, denied: the holder; host 0: a program outside */
    struct range held;
};

enum lock_flags { LOCK_BLOCK = 1, LOCK_RECLAIM = 2 };

/* Repeats a request until it is answered, however often the server dies meanwhile. DENIED_NOLOCKS
 * is no answer, and neither is DENIED_GRACE_PERIOD, except to a reclaim. */
struct answer ask(struct process *process, struct connection *connection, uint32_t procedure,
                  const struct range *range, int flags);

/* Sends SM_NOTIFY, because this host has restarted. Returns when the server has answered. */
void tell_of_our_crash(void);

/* ---- player_services.c ---- */

void services_start(void);

/* ---- player.c ---- */

/* Handles the server's SM_NOTIFY; the caller holds the guard. */
void host_told_of_restart(int32_t state);

/* ---- player_process.c ---- */

void *process_run(void *process);

/* Handles a GRANTED callback; the caller holds the guard. True if the process waits for exactly
 * this range, or has it. granting: the number of the grant, if it is that of the last wait. */
bool process_granted(struct process *process, const struct range *range, unsigned *granting);

void process_set_held(struct process *process, const struct range *range, enum mode mode);

/* Lists what the process holds, as the server sees it: the longest runs of one mode. Returns their
 * number. */
size_t process_runs(const struct process *process, struct range runs[FILES_MAX * CELLS]);

#endif
