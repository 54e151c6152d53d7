/* XDR, written by hand and fast, for the programs that make load. */
#ifndef HF_BENCH_PUT_H
#define HF_BENCH_PUT_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint8_t *put32(uint8_t *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, 4);
    return p + 4;
}

static inline uint8_t *put64(uint8_t *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, 8);
    return p + 8;
}

static inline uint8_t *put_opaque(uint8_t *p, const void *data, uint32_t len)
{
    p = put32(p, len);
    memcpy(p, data, len);
    memset(p + len, 0, (4 - len % 4) % 4);
    return p + (len + 3) / 4 * 4;
}

static inline uint8_t *put_head(uint8_t *p, uint32_t xid, uint32_t prog, uint32_t vers,
                                uint32_t proc)
{
    p = put32(p, xid);
    p = put32(p, 0); /* CALL */
    p = put32(p, 2);
    p = put32(p, prog);
    p = put32(p, vers);
    p = put32(p, proc);
    memset(p, 0, 16); /* AUTH_NONE twice */
    return p + 16;
}

static inline uint32_t get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return be32toh(v);
}

#endif
