/*
 * Writes the text format of Prometheus (version 0.0.4), family by family, into a buffer. Label
 * values are constants of ours and need no escaping. When memory runs out the rest is dropped and
 * failed is set.
 */
#ifndef HF_ADMIN_EXPOSITION_H
#define HF_ADMIN_EXPOSITION_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/histogram.h"

struct hf_exposition {
    struct hf_buf *out;
    bool failed;
};

/* Begins a family of metrics with its help text and type; its samples follow. */
void hf_expose_family(struct hf_exposition *e, const char *name, const char *type,
                      const char *help);

/* labels is in the syntax of the format, without braces: procedure="LOCK"; NULL: there are none. */
void hf_expose_uint(struct hf_exposition *e, const char *name, const char *labels, uint64_t value);
void hf_expose_real(struct hf_exposition *e, const char *name, const char *labels, double value);

/* Writes a family of one sample without labels. */
void hf_expose_counter(struct hf_exposition *e, const char *name, const char *help, uint64_t value);
void hf_expose_gauge(struct hf_exposition *e, const char *name, const char *help, double value);

/* Writes the buckets of a histogram from 2^low to 2^high, each times unit: with a unit of 1e-9
 * nanoseconds are shown as seconds. */
void hf_expose_histogram(struct hf_exposition *e, const char *name, const char *labels,
                         const struct hf_histogram *histogram, unsigned low, unsigned high,
                         double unit);

#endif
