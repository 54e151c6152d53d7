/*
 * A history: what clients asked of the lock service and what they were told, with the moment before
 * each request was sent and the moment after its answer had arrived, all by one clock. One line per
 * operation:
 *
 *     FILE OWNER KIND FIRST LAST MODE INVOKED COMPLETED RESULT [HOLDER FIRST LAST MODE]
 *
 *   OWNER      HOST.PROCESS, two numbers; HOST.* for `crash`, *.* for `restart`
 *   KIND       see enum history_kind
 *   FIRST LAST cells of the file, 0 to HISTORY_CELLS - 1, both included
 *   MODE       x (exclusive) or s (shared)
 *   INVOKED COMPLETED  nanoseconds
 *   RESULT     granted, denied, blocked, or maybe: an operation whose outcome no client knows. It
 *              may have taken effect at any moment between the two times, or not at all.
 *   HOLDER ... what TEST named when it was denied
 *
 * A line that begins with # is a comment. Ranges are counted in cells, not in bytes, so that a
 * state is small; the client that records the history decides which bytes a cell stands for.
 */
#ifndef HF_HISTORY_H
#define HF_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    HISTORY_CELLS = 8,
    HISTORY_OWNERS = 32, /* of one history */
    HISTORY_NAME_MAX = 64,
    HISTORY_NO_OWNER = 255,
};

enum history_kind {
    HISTORY_TEST,
    HISTORY_LOCK,  /* a LOCK that does not block */
    HISTORY_ENTER, /* a blocking LOCK that was granted at once, or refused */
    HISTORY_WAIT,  /* a blocking LOCK that was told BLOCKED: the owner joins the queue */
    HISTORY_GRANT, /* the GRANTED callback of a waiter */
    HISTORY_UNLOCK,
    HISTORY_CANCEL,  /* granted: the owner waits no longer; denied: it has the lock */
    HISTORY_RECLAIM, /* a reclaim after a restart of the server */
    /* The server takes back what the owner did not reclaim; the result is always `maybe`. */
    HISTORY_LAPSE,
    /* The owner reclaims a lock as shared that was exclusive: an upgrade was granted and the owner
       did not hear of it; the result is always `maybe`. */
    HISTORY_WEAKEN,
    /* An UNLOCK takes effect until its commit fails; the result is always `maybe`. */
    HISTORY_RELEASE,
    /* That UNLOCK is undone, and the owner holds the range again; the result is always `maybe`. */
    HISTORY_RESTORE,
    /* The server gives up a waiter that it cannot call back; the result is always `maybe`. */
    HISTORY_LEAVE,
    /* A client host has restarted and sent its notice: it holds nothing and waits for nothing. */
    HISTORY_CRASH,
    HISTORY_RESTART, /* the server has restarted: it has lost its queue, but no locks */
    HISTORY_KINDS,
};
extern const char *const history_kind_names[HISTORY_KINDS];

enum history_result { HISTORY_GRANTED, HISTORY_DENIED, HISTORY_BLOCKED, HISTORY_MAYBE };
extern const char *const history_result_names[];

struct history_range {
    uint8_t first, last;
    bool exclusive;
};

struct history_op {
    uint64_t invoked, completed;
    enum history_kind kind;
    enum history_result result;
    uint8_t owner;   /* a number of history_owner(); HISTORY_NO_OWNER for crash and restart */
    uint8_t host;    /* the owner's host, or the host that crashed */
    uint32_t owners; /* crash: all owners of the host, one bit each */
    struct history_range range;
    uint8_t holder; /* the owner that TEST named; HISTORY_NO_OWNER: none */
    struct history_range held;
};

/* The operations on one file, in order of invocation. */
struct history_file {
    char name[HISTORY_NAME_MAX];
    struct history_op *ops;
    size_t n_ops, size;
};

struct history {
    struct history_file *files;
    size_t n_files;
    struct {
        unsigned host, process;
    } owners[HISTORY_OWNERS];
    unsigned n_owners;
};

/* Reads a history to the end of the stream. Returns false for a bad line; error says which line,
 * and why. */
bool history_read(struct history *history, FILE *in, char error[256]);
void history_free(struct history *history);

void history_print_op(const struct history *history, const struct history_op *op, FILE *out);

#endif
