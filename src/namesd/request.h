/* Reads the requests of the line protocol (docs/operating/NAMES.md), one line at a time, and writes
 * the answers. It makes no system call, so that a fuzzer can try every line. */
#ifndef HF_NAMESD_REQUEST_H
#define HF_NAMESD_REQUEST_H

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "handles/resolve.h"

#define HF_NAMES_GREETING "holdfast-names 1"

enum {
    HF_NAMES_ID_MAX = 20,   /* how many digits the id of a request may have */
    HF_NAMES_LINE_MAX = 256 /* the length of a request, with its line feed */
};

enum hf_namesd_request_kind {
    HF_NAMESD_REQUEST_BAD,
    HF_NAMESD_REQUEST_GREETING,
    HF_NAMESD_REQUEST_PATH
};

struct hf_namesd_request {
    enum hf_namesd_request_kind kind;
    /* The id of the request; "" if the line has none that could be read. */
    char id[HF_NAMES_ID_MAX + 1];
    uint8_t handle[HF_HANDLE_BYTES_MAX];
    size_t len;
};

/* Reads a request, a line without its line feed. */
void hf_namesd_request_read(struct hf_bytes line, struct hf_namesd_request *out);

/*
 * Appends one line of an answer; the path is used only for NAMED. Returns HF_ENOMEM without memory.
 */
int hf_namesd_request_answer(struct hf_buf *out, const struct hf_namesd_request *request,
                             enum hf_answer answer, struct hf_bytes path);

/* Appends the answer to a line that made no sense. Returns HF_ENOMEM without memory. */
int hf_namesd_request_refuse(struct hf_buf *out, const struct hf_namesd_request *request);

#endif
