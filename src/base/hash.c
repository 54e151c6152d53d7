#include "base/hash.h"

#include <endian.h>
#include <string.h>

/* ---- hash for tables in memory ---- */

/* These constants are arbitrary odd numbers with 32 one bits spread over the word. */
#define LENGTH_MIX 0x9e3779b97f4a7c15ULL

/* Multiplies two numbers to 128 bits and folds both halves into one. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static inline uint64_t load32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/*
 * Computes the final hash. b must already be masked by k0 or by a value derived from k0: if a
 * client could make one factor 0, the product would be 0 whatever the other factor and the key are.
 */
static inline uint64_t finish(const struct hf_hash_key *key, uint64_t a, uint64_t b)
{
    return fold(fold(a ^ key->k1, b) ^ key->k0, key->k1 ^ LENGTH_MIX);
}

uint64_t hf_hash(const struct hf_hash_key *key, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t h = key->k0 ^ len * LENGTH_MIX;
    uint64_t a = 0;
    uint64_t b = 0;
    size_t left;

    for (left = len; left > 16; left -= 16, p += 16)
        h = fold(load64(p) ^ key->k1, load64(p + 8) ^ h);
    /*
     * Hash the last 16 bytes or fewer as two words that may overlap, which avoids a loop over
     * bytes.
     */
    if (left >= 8) {
        a = load64(p);
        b = load64(p + left - 8);
    } else if (left >= 4) {
        a = load32(p);
        b = load32(p + left - 4);
    } else if (left > 0) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 | p[left - 1];
    }
    return finish(key, a, b ^ h);
}

uint64_t hf_hash_u64(const struct hf_hash_key *key, uint64_t a, uint64_t b)
{
    return finish(key, a, b ^ key->k0);
}

/* ---- hash for values that leave the process ---- */

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 = rotl(s->v2, 32);
}

static inline struct sip sip_init(const struct hf_hash_key *key)
{
    return (struct sip){
        key->k0 ^ 0x736f6d6570736575ULL,
        key->k1 ^ 0x646f72616e646f6dULL,
        key->k0 ^ 0x6c7967656e657261ULL,
        key->k1 ^ 0x7465646279746573ULL,
    };
}

static inline void sip_word(struct sip *s, uint64_t m)
{
    s->v3 ^= m;
    sip_round(s);
    s->v0 ^= m;
}

static inline uint64_t sip_finish(struct sip *s)
{
    s->v2 ^= 0xff;
    sip_round(s);
    sip_round(s);
    sip_round(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

uint64_t hf_siphash(const struct hf_hash_key *key, const void *data, size_t len)
{
    const uint8_t *p = data;
    struct sip s = sip_init(key);
    uint64_t tail = 0;

    for (size_t left = len; left >= 8; left -= 8, p += 8) {
        uint64_t m;
        memcpy(&m, p, 8);
        sip_word(&s, le64toh(m));
    }
    if (len & 7)
        memcpy(&tail, p, len & 7);
    sip_word(&s, le64toh(tail) | (uint64_t)len << 56);
    return sip_finish(&s);
}

uint64_t hf_siphash_u64(const struct hf_hash_key *key, uint64_t a, uint64_t b)
{
    struct sip s = sip_init(key);

    sip_word(&s, a);
    sip_word(&s, b);
    return sip_finish(&s);
}
