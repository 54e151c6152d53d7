/*
 * XDR (RFC 4506) written and read by hand: a second opinion on what rpcgen's codecs do. HF_ASSERT
 * is the only check of bounds; the messages of a simulated world are small.
 */
#ifndef HF_SIM_XDR_H
#define HF_SIM_XDR_H

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { SIM_XDR_MAX = 512 };

struct sim_xdr_out {
    uint8_t data[SIM_XDR_MAX];
    size_t len;
};

static inline void sim_xdr_put32(struct sim_xdr_out *out, uint32_t value)
{
    HF_ASSERT(out->len + 4 <= sizeof(out->data));
    for (int shift = 24; shift >= 0; shift -= 8)
        out->data[out->len++] = (uint8_t)(value >> shift);
}

static inline void sim_xdr_put64(struct sim_xdr_out *out, uint64_t value)
{
    sim_xdr_put32(out, (uint32_t)(value >> 32));
    sim_xdr_put32(out, (uint32_t)value);
}

static inline void sim_xdr_put_fixed(struct sim_xdr_out *out, struct hf_bytes bytes)
{
    HF_ASSERT(out->len + bytes.len + 3 <= sizeof(out->data));
    memcpy(out->data + out->len, bytes.data, bytes.len);
    out->len += bytes.len;
    while (out->len % 4 != 0)
        out->data[out->len++] = 0;
}

static inline void sim_xdr_put_opaque(struct sim_xdr_out *out, struct hf_bytes bytes)
{
    sim_xdr_put32(out, (uint32_t)bytes.len);
    sim_xdr_put_fixed(out, bytes);
}

struct sim_xdr_in {
    struct hf_bytes bytes;
    size_t at;
    bool bad; /* the message was cut short, or its padding is not zero */
};

/* Returns a view into the message; an empty one when the message is cut short. */
static inline struct hf_bytes sim_xdr_get_fixed(struct sim_xdr_in *in, size_t len)
{
    size_t padded = (len + 3) / 4 * 4;
    struct hf_bytes out = {0};

    if (in->bad || padded < len || in->bytes.len - in->at < padded) {
        in->bad = true;
        return out;
    }
    out = hf_bytes(in->bytes.data + in->at, len);
    for (size_t i = len; i < padded; i++)
        in->bad |= in->bytes.data[in->at + i] != 0;
    in->at += padded;
    return out;
}

static inline uint32_t sim_xdr_get32(struct sim_xdr_in *in)
{
    struct hf_bytes word = sim_xdr_get_fixed(in, 4);
    uint32_t value = 0;

    for (size_t i = 0; i < word.len; i++)
        value = value << 8 | word.data[i];
    return value;
}

static inline uint64_t sim_xdr_get64(struct sim_xdr_in *in)
{
    uint64_t high = sim_xdr_get32(in);

    return high << 32 | sim_xdr_get32(in);
}

static inline struct hf_bytes sim_xdr_get_opaque(struct sim_xdr_in *in)
{
    return sim_xdr_get_fixed(in, sim_xdr_get32(in));
}

/* True if all of the message was read and made sense. */
static inline bool sim_xdr_complete(const struct sim_xdr_in *in)
{
    return !in->bad && in->at == in->bytes.len;
}

#endif
