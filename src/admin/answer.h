/* Reads the answers of a namer, each a line of the protocol in docs/operating/NAMES.md. The namer
 * may lie. */
#ifndef HF_ADMIN_ANSWER_H
#define HF_ADMIN_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/quote.h"

enum hf_name_status {
    HF_NAME_NONE, /* the namer knows no name for the file */
    HF_NAME_KNOWN,
    HF_NAME_DELETED,
};

struct hf_name_answer {
    uint64_t id;
    enum hf_name_status status;
    size_t len; /* the length of the path in bytes */
    /* HF_NAME_KNOWN: the absolute path, with every character quoted that needs it. */
    char path[HF_PATH_QUOTED_MAX];
};

/* Reads an answer, a line without its line feed. Returns false if the line makes no sense: such a
 * namer cannot be trusted. */
bool hf_name_answer_read(struct hf_bytes line, struct hf_name_answer *out);

#endif
