#include "base/buf.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

enum { FIRST_SIZE = 256 };

void hf_buf_init(struct hf_buf *buf, const struct hf_alloc *alloc)
{
    *buf = (struct hf_buf){.alloc = alloc};
}

void hf_buf_free(struct hf_buf *buf)
{
    if (buf->alloc)
        hf_free(buf->alloc, buf->data);
    *buf = (struct hf_buf){.alloc = buf->alloc};
}

uint8_t *hf_buf_reserve(struct hf_buf *buf, size_t len)
{
    size_t used = hf_buf_len(buf);
    size_t size = buf->size ? buf->size : FIRST_SIZE;
    uint8_t *data;

    if (buf->data && buf->size - buf->end >= len)
        return buf->data + buf->end;

    /* Move the bytes to the front if that makes enough room: this is cheaper than growing, and
     * otherwise a buffer that is never quite empty would grow for ever. */
    if (buf->data && buf->start > 0 && buf->size - used >= len) {
        memmove(buf->data, buf->data + buf->start, used);
        buf->start = 0;
        buf->end = used;
        return buf->data + buf->end;
    }

    while (size - buf->end < len) {
        if (__builtin_mul_overflow(size, (size_t)2, &size))
            return NULL;
    }
    data = hf_realloc(buf->alloc, buf->data, size);
    if (!data)
        return NULL;
    buf->data = data;
    buf->size = size;
    return buf->data + buf->end;
}

void hf_buf_commit(struct hf_buf *buf, size_t len)
{
    HF_ASSERT(len <= buf->size - buf->end);
    buf->end += len;
}

int hf_buf_append(struct hf_buf *buf, const void *data, size_t len)
{
    uint8_t *room;

    if (len == 0)
        return 0;
    room = hf_buf_reserve(buf, len);
    if (!room)
        return HF_ENOMEM;
    memcpy(room, data, len);
    buf->end += len;
    return 0;
}

void hf_buf_consume(struct hf_buf *buf, size_t len)
{
    HF_ASSERT(len <= hf_buf_len(buf));
    buf->start += len;
    if (buf->start == buf->end)
        hf_buf_clear(buf);
}
