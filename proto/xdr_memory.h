/*
 * The primitives of XDR for a stream in memory, to be inlined into the codecs that rpcgen makes.
 * libtirpc's do the same through three calls for each word, two of them through pointers, which is
 * a fifth of all instructions of a LOCK; these work on the same XDR, made by xdrmem_create(), whose
 * x_private is the place and x_handy the bytes left. Encoders and decoders of both kinds can be
 * mixed on one stream. No other kind of stream will do: who has one makes the codecs with
 * HF_XDR_ANY_STREAM, and gets libtirpc's primitives.
 *
 * Opaques are decoded into preset storage only (rpc/program.h): nothing is allocated, and so there
 * is no XDR_FREE either.
 */
#ifndef HF_PROTO_XDR_MEMORY_H
#define HF_PROTO_XDR_MEMORY_H

#include <endian.h>
#include <rpc/rpc.h>
#include <stdint.h>
#include <string.h>

/* The next len bytes of the stream; FALSE where there are not so many. */
static inline bool_t hf_xdr_take(XDR *xdr, u_int len, char **at)
{
    if (len > xdr->x_handy)
        return FALSE;
    *at = xdr->x_private;
    xdr->x_handy -= len;
    xdr->x_private = *at + len;
    return TRUE;
}

static inline bool_t hf_xdr_word(XDR *xdr, uint32_t *word)
{
    uint32_t wire;
    char *at;

    if (!hf_xdr_take(xdr, sizeof(*word), &at))
        return FALSE;
    if (xdr->x_op == XDR_DECODE) {
        memcpy(&wire, at, sizeof(wire));
        *word = be32toh(wire);
    } else {
        wire = htobe32(*word);
        memcpy(at, &wire, sizeof(wire));
    }
    return TRUE;
}

static inline bool_t hf_xdr_hyper(XDR *xdr, uint64_t *hyper)
{
    uint64_t wire;
    char *at;

    if (!hf_xdr_take(xdr, sizeof(*hyper), &at))
        return FALSE;
    if (xdr->x_op == XDR_DECODE) {
        memcpy(&wire, at, sizeof(wire));
        *hyper = be64toh(wire);
    } else {
        wire = htobe64(*hyper);
        memcpy(at, &wire, sizeof(wire));
    }
    return TRUE;
}

/* Any number but 0 is true: peers differ in which they send. */
static inline bool_t hf_xdr_bool(XDR *xdr, bool_t *value)
{
    uint32_t word = *value ? 1 : 0;

    if (!hf_xdr_word(xdr, &word))
        return FALSE;
    *value = word ? TRUE : FALSE;
    return TRUE;
}

/* Bytes of a length known beforehand, and zeros up to a multiple of four. */
static inline bool_t hf_xdr_opaque(XDR *xdr, char *bytes, u_int len)
{
    u_int padding = -len & 3;
    char *at;

    if (len > UINT32_MAX - 3 || !hf_xdr_take(xdr, len + padding, &at))
        return FALSE;
    if (len == 0)
        return TRUE;
    if (!bytes)
        return FALSE;
    if (xdr->x_op == XDR_DECODE) {
        memcpy(bytes, at, len);
    } else {
        memcpy(at, bytes, len);
        memset(at + len, 0, padding);
    }
    return TRUE;
}

static inline bool_t hf_xdr_bytes(XDR *xdr, char **bytes, u_int *len, u_int max)
{
    return hf_xdr_word(xdr, len) && *len <= max && hf_xdr_opaque(xdr, *bytes, *len);
}

#define xdr_int(xdr, p)               hf_xdr_word(xdr, (uint32_t *)(p))
#define xdr_u_int(xdr, p)             hf_xdr_word(xdr, p)
#define xdr_enum(xdr, p)              hf_xdr_word(xdr, (uint32_t *)(p))
#define xdr_u_quad_t(xdr, p)          hf_xdr_hyper(xdr, (uint64_t *)(p))
#define xdr_bool(xdr, p)              hf_xdr_bool(xdr, p)
#define xdr_opaque(xdr, p, len)       hf_xdr_opaque(xdr, p, len)
#define xdr_bytes(xdr, pp, plen, max) hf_xdr_bytes(xdr, pp, plen, max)

#endif
