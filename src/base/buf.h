/*
 * A growable buffer of bytes with a read end and a write end, for example for the records of a
 * batch or for the bytes still to be sent. It owns its memory; views of it are valid until the next
 * change.
 */
#ifndef HF_BASE_BUF_H
#define HF_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"

struct hf_buf {
    uint8_t *data;
    size_t start; /* the offset of the first byte that is not consumed yet */
    size_t end;   /* the offset behind the last byte that was written */
    size_t size;  /* how many bytes of memory the buffer has */
    const struct hf_alloc *alloc;
};

/* Initialises an empty buffer, without allocating memory. */
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

/* Reserves room for len more bytes at the end and returns it, or NULL. Bytes written there become
 * part of the buffer with hf_buf_commit(). */
uint8_t *hf_buf_reserve(struct hf_buf *buf, size_t len);
void hf_buf_commit(struct hf_buf *buf, size_t len);

/* Appends bytes. Returns 0, or HF_ENOMEM with the buffer unchanged. */
int hf_buf_append(struct hf_buf *buf, const void *data, size_t len);

/* Drops len bytes from the front of the buffer. */
void hf_buf_consume(struct hf_buf *buf, size_t len);

/* Drops everything after the first len bytes, counted from the read end. */
static inline void hf_buf_truncate(struct hf_buf *buf, size_t len)
{
    buf->end = buf->start + len;
}

/* Empties the buffer and keeps its memory for reuse. */
static inline void hf_buf_clear(struct hf_buf *buf)
{
    buf->start = buf->end = 0;
}

#endif
