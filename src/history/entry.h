/* One line of the history (ADM-11): a lock or a wait that has ended, or another event that an
 * operator wants to find later (a restart, a crash, a loss, an operator's change).
 *
 * A line is text, so that it can be read without Holdfast: fields with a tab between them, numbers
 * in decimal, file handles in hexadecimal, all other bytes quoted (base/quote.h). "-" is an empty
 * field. The fields are in the order of struct hf_history_row. A reader skips a line that does not
 * have this form (the last one before a crash of the host). */
#ifndef HF_HISTORY_ENTRY_H
#define HF_HISTORY_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/bytes.h"

enum {
    HF_HISTORY_NAME_MAX = 128, /* longer client names are cut */
    HF_HISTORY_FH_MAX = 64,    /* RFC 1813 */
    HF_HISTORY_OH_MAX = 64,    /* longer owner handles are cut */
    /* The longest quoted path or text; a longer one is left out. */
    HF_HISTORY_TEXT_MAX = 1024,
    HF_HISTORY_LINE_MAX = 4096, /* the longest line of the history, including its newline */
};

enum hf_history_kind {
    HF_HISTORY_LOCK, /* a lock was held from `from_ms` to `to_ms` */
    HF_HISTORY_WAIT, /* a request waited for a lock from `from_ms` to `to_ms` */
    /* an earlier line of this lock is wrong: its end could not be recorded, so it is still held */
    HF_HISTORY_UNDONE,
    HF_HISTORY_NOTE, /* an event happened at `to_ms` */
    HF_HISTORY_KINDS
};

/* An event for the history. The caller owns the bytes that the fields point to. An entry of kind
 * HF_HISTORY_NOTE may name a client, a handle and a text, but no lock and no owner. */
struct hf_history_entry {
    enum hf_history_kind kind;
    int64_t from_ms, to_ms; /* when the lock or wait began and ended, by the wall clock */
    const char *why;        /* how the lock or wait ended, or what happened; a string constant */
    bool exclusive;
    uint64_t first, last;
    struct hf_addr addr;
    struct hf_bytes client, fh, oh;
    int32_t svid;
    uint64_t id;      /* the id of the lock or waiter */
    const char *path; /* the quoted path of the file; NULL: not known */
    const char *text; /* NULL: none */
};

/* A line of the history as read from a file: its fields point into the line, and an absent field is
 * "". */
struct hf_history_row {
    enum hf_history_kind kind;
    int64_t from_ms, to_ms;
    const char *why;
    bool exclusive;
    uint64_t first, last;
    const char *addr, *client, *fh;
    int32_t svid;
    const char *owner;
    uint64_t id;
    const char *path, *text;
};

/* Writes an entry as a line; returns the length of the line with its newline. */
size_t hf_history_encode(const struct hf_history_entry *entry, char line[HF_HISTORY_LINE_MAX]);

/* Splits a line into its fields, in place; its newline must have become a NUL. Returns false for a
 * line that has another form. */
bool hf_history_decode(char *line, struct hf_history_row *out);

const char *hf_history_kind_name(enum hf_history_kind kind);

#endif
