#include "admin/exposition.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_MAX_BYTES = 512 };

__attribute__((format(printf, 2, 3))) static void put(struct hf_exposition *e, const char *format,
                                                      ...)
{
    uint8_t *room = hf_buf_reserve(e->out, LINE_MAX_BYTES);
    va_list args;
    int len;

    if (!room) {
        e->failed = true;
        return;
    }
    va_start(args, format);
    len = vsnprintf((char *)room, LINE_MAX_BYTES, format, args);
    va_end(args);
    if (len < 0 || len >= LINE_MAX_BYTES)
        e->failed = true;
    else
        hf_buf_commit(e->out, (size_t)len);
}

void hf_expose_family(struct hf_exposition *e, const char *name, const char *type, const char *help)
{
    put(e, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void sample(struct hf_exposition *e, const char *name, const char *suffix,
                   const char *labels, double value)
{
    put(e, labels ? "%s%s{%s} %.17g\n" : "%s%s%s %.17g\n", name, suffix, labels ? labels : "",
        value);
}

void hf_expose_uint(struct hf_exposition *e, const char *name, const char *labels, uint64_t value)
{
    sample(e, name, "", labels, (double)value);
}

void hf_expose_real(struct hf_exposition *e, const char *name, const char *labels, double value)
{
    sample(e, name, "", labels, value);
}

void hf_expose_counter(struct hf_exposition *e, const char *name, const char *help, uint64_t value)
{
    hf_expose_family(e, name, "counter", help);
    hf_expose_uint(e, name, NULL, value);
}

void hf_expose_gauge(struct hf_exposition *e, const char *name, const char *help, double value)
{
    hf_expose_family(e, name, "gauge", help);
    hf_expose_real(e, name, NULL, value);
}

void hf_expose_histogram(struct hf_exposition *e, const char *name, const char *labels,
                         const struct hf_histogram *histogram, unsigned low, unsigned high,
                         double unit)
{
    const char *comma = labels ? "," : "";
    const char *given = labels ? labels : "";
    uint64_t count = 0;

    for (unsigned i = 0; i < HF_HISTOGRAM_BUCKETS; i++) {
        count += histogram->counts[i];
        if (i >= low && i <= high)
            put(e, "%s_bucket{%s%sle=\"%.10g\"} %llu\n", name, given, comma,
                (double)(UINT64_C(1) << i) * unit, (unsigned long long)count);
    }
    put(e, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, given, comma, (unsigned long long)count);
    sample(e, name, "_sum", labels, (double)histogram->sum * unit);
    sample(e, name, "_count", labels, (double)count);
}
