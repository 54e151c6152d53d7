/* The side of the line protocol (docs/operating/NAMES.md) that asks: reads one answer of a namer,
 * which may lie. */
#ifndef HF_ADMIN_ANSWER_H
#define HF_ADMIN_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/quote.h"

enum hf_name_status {
    HF_NAME_NONE, /* no name is known */
    HF_NAME_KNOWN,
    HF_NAME_DELETED,
};

struct hf_name_answer {
    uint64_t id;
    enum hf_name_status status;
    size_t len;                    /* the length of path */
    char path[HF_PATH_QUOTED_MAX]; /* HF_NAME_KNOWN: the absolute path, in its only quoted form */
};

/* Reads a line, which is given without its line feed. Returns false if it makes no sense, so that
 * the namer cannot be trusted. */
bool hf_name_answer_read(struct hf_bytes line, struct hf_name_answer *out);

#endif
