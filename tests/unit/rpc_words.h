/* An RPC message built word by word, in the notation of RFC 5531. */
#ifndef HF_TESTS_RPC_WORDS_H
#define HF_TESTS_RPC_WORDS_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

struct words {
    uint8_t bytes[4096];
    size_t len;
};

static inline void word(struct words *w, uint32_t value)
{
    value = htobe32(value);
    HF_ASSERT(w->len + 4 <= sizeof(w->bytes));
    memcpy(w->bytes + w->len, &value, 4);
    w->len += 4;
}

/* Length, bytes, padding. */
static inline void opaque(struct words *w, const void *data, size_t len)
{
    size_t padded = (len + 3) & ~(size_t)3;

    word(w, (uint32_t)len);
    HF_ASSERT(w->len + padded <= sizeof(w->bytes));
    memset(w->bytes + w->len, 0, padded);
    memcpy(w->bytes + w->len, data, len);
    w->len += padded;
}

static inline struct hf_bytes view(const struct words *w)
{
    return hf_bytes(w->bytes, w->len);
}

/* Writes the header of a call up to the credentials: xid, CALL, version 2, program, version,
 * procedure. */
static inline struct words call_head(uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc)
{
    struct words w = {.len = 0};

    word(&w, xid);
    word(&w, 0);
    word(&w, 2);
    word(&w, prog);
    word(&w, vers);
    word(&w, proc);
    return w;
}

/* Makes a complete call without arguments and with AUTH_NONE. */
static inline struct words plain_call(uint32_t xid, uint32_t prog, uint32_t vers, uint32_t proc)
{
    struct words w = call_head(xid, prog, vers, proc);

    for (int i = 0; i < 4; i++)
        word(&w, 0);
    return w;
}

static inline uint32_t word_at(struct hf_bytes bytes, size_t index)
{
    uint32_t value;

    HF_ASSERT(4 * index + 4 <= bytes.len);
    memcpy(&value, bytes.data + 4 * index, 4);
    return be32toh(value);
}

#endif
