/*
 * Writes JSON straight into a buffer, for the rows of lists: a list may have a million of them on
 * the loop that serves locks, and a tree of objects for each row costs ten times as much. Answers
 * that are not lists are made with jansson (reply.c).
 *
 * Values have the forms of values.h. key is NULL inside an array. When memory runs out the rest is
 * dropped and failed is set.
 */
#ifndef HF_ADMIN_WRITER_H
#define HF_ADMIN_WRITER_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/buf.h"
#include "base/bytes.h"

struct writer {
    struct hf_buf *out;
    bool comma; /* the next value needs a comma before it */
    bool failed;
};

void hf_json_open(struct writer *w, const char *key, char bracket);
void hf_json_close(struct writer *w, char bracket);

void hf_json_null(struct writer *w, const char *key);
void hf_json_bool(struct writer *w, const char *key, bool value);
void hf_json_int(struct writer *w, const char *key, int64_t value);
void hf_json_id(struct writer *w, const char *key, uint64_t value);
void hf_json_time(struct writer *w, const char *key, int64_t wall_ms);
void hf_json_seconds(struct writer *w, const char *key, int64_t ms);
void hf_json_addr(struct writer *w, const char *key, const struct hf_addr *addr);
void hf_json_hex(struct writer *w, const char *key, struct hf_bytes bytes);

/* Writes text from a peer: bytes that are not printable are written \xNN. Text whose data is NULL
 * becomes null. */
void hf_json_text(struct writer *w, const char *key, struct hf_bytes bytes);
void hf_json_str(struct writer *w, const char *key, const char *text);

#endif
