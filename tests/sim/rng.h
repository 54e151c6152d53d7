/*
 * The one source of chance in a simulated world: xoshiro256** (Blackman and Vigna), filled from one
 * 64-bit seed by splitmix64. Nothing else in the simulator may decide anything by chance, address,
 * hash order or wall clock, so a seed is a whole history. A fuzzer gives a tape of bytes besides:
 * as long as it lasts, each decision takes its next byte instead.
 */
#ifndef HF_SIM_RNG_H
#define HF_SIM_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_rng {
    uint64_t s[4];
    const uint8_t *tape;
    size_t tape_left;
};

static inline uint64_t sim_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline void sim_rng_init(struct sim_rng *rng, uint64_t seed)
{
    rng->tape_left = 0;
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        rng->s[i] = sim_mix64(seed);
    }
}

static inline uint64_t sim_rng_next(struct sim_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t x = s[1] * 5;
    uint64_t t = s[1] << 17;

    if (rng->tape_left > 0) {
        rng->tape_left--;
        return (uint64_t)*rng->tape++ * 0x0101010101010101u;
    }
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return (x << 7 | x >> 57) * 9;
}

/* 0 to bound - 1; the bias of the multiplication is far below anything a test could see. */
static inline uint32_t sim_rng_below(struct sim_rng *rng, uint32_t bound)
{
    return (uint32_t)(((sim_rng_next(rng) >> 32) * bound) >> 32);
}

/* low to high, both included. */
static inline uint32_t sim_rng_range(struct sim_rng *rng, uint32_t low, uint32_t high)
{
    return low + sim_rng_below(rng, high - low + 1);
}

/* True once in n times in the mean; never when n is 0. */
static inline bool sim_rng_one_in(struct sim_rng *rng, uint32_t n)
{
    return n > 0 && sim_rng_below(rng, n) == 0;
}

/* True with a probability of per_mille / 1000. */
static inline bool sim_rng_chance(struct sim_rng *rng, uint32_t per_mille)
{
    return per_mille > 0 && sim_rng_below(rng, 1000) < per_mille;
}

#endif
