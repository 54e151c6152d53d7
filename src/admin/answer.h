/* The line protocol of docs/operating/NAMES.md, the side that asks: one answer of a namer, which
 * may lie. */
#ifndef HF_ADMIN_ANSWER_H
#define HF_ADMIN_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/quote.h"

enum hf_name_status {
    HF_NAME_NONE, /* none that is known */
    HF_NAME_KNOWN,
    HF_NAME_DELETED,
};

struct hf_name_answer {
    uint64_t id;
    enum hf_name_status status;
    size_t len;                    /* of path */
    char path[HF_PATH_QUOTED_MAX]; /* of HF_NAME_KNOWN: absolute, and in its only quoted form */
};

/* line: without its line feed. False if it makes no sense, so that the namer cannot be trusted. */
bool hf_name_answer_read(struct hf_bytes line, struct hf_name_answer *out);

#endif
