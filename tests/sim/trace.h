/*
 * The history of a run: every step is mixed into a hash, and printed as a line if a
 * trace is wanted. The hash is taken of numbers, not of the text, so a run that prints nothing
 * formats nothing, and has the same hash as one that does.
 */
#ifndef HF_SIM_TRACE_H
#define HF_SIM_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "rng.h"

struct sim_trace {
    uint64_t hash;
    FILE *out; /* NULL: only the hash */
};

static inline void sim_trace_mix(struct sim_trace *trace, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = trace->hash * 0x9e3779b97f4a7c15u;

    trace->hash = sim_mix64(h ^ a ^ (b << 21 | b >> 43) ^ (c << 42 | c >> 22));
}

__attribute__((format(printf, 3, 4))) void sim_trace_print(struct sim_trace *trace, uint64_t now_ms,
                                                           const char *format, ...);

/* Mixes three numbers that stand for the step into the hash, then prints the line for people. */
#define SIM_TRACE(trace, now_ms, a, b, c, ...)                               \
    do {                                                                     \
        sim_trace_mix((trace), (uint64_t)(a), (uint64_t)(b), (uint64_t)(c)); \
        if ((trace)->out)                                                    \
            sim_trace_print((trace), (now_ms), __VA_ARGS__);                 \
    } while (0)

#endif
