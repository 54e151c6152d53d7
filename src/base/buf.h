/*
 * A growable run of bytes with a read end and a write end: records gathered into a batch, bytes on
 * their way to a socket. It owns its memory; views of it are valid until the next change.
 */
#ifndef HF_BASE_BUF_H
#define HF_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"

struct hf_buf {
    uint8_t *data;
    size_t start; /* first byte not consumed yet */
    size_t end;   /* one past the last byte written */
    size_t size;  /* bytes allocated */
    const struct hf_alloc *alloc;
};

/* Allocates nothing yet. */
void hf_buf_init(struct hf_buf *buf, const struct hf_alloc *alloc);
void hf_buf_free(struct hf_buf *buf);

static inline size_t hf_buf_len(const struct hf_buf *buf)
{
    return buf->end - buf->start;
}

static inline struct hf_bytes hf_buf_view(const struct hf_buf *buf)
{
    return (struct hf_bytes){buf->data + buf->start, buf->end - buf->start};
}

/*
 * Room for len more bytes at the end, or NULL. What was written there counts only after
 * hf_buf_commit().
 */
uint8_t *hf_buf_reserve(struct hf_buf *buf, size_t len);
void hf_buf_commit(struct hf_buf *buf, size_t len);

/* HF_ENOMEM, with the buffer as it was, or 0. */
int hf_buf_append(struct hf_buf *buf, const void *data, size_t len);

/* Drops len bytes from the front. */
void hf_buf_consume(struct hf_buf *buf, size_t len);

/* Takes back what was written after the first len bytes from the read end. */
static inline void hf_buf_truncate(struct hf_buf *buf, size_t len)
{
    buf->end = buf->start + len;
}

/* Empty again, memory kept for reuse. */
static inline void hf_buf_clear(struct hf_buf *buf)
{
    buf->start = buf->end = 0;
}

#endif
