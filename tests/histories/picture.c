#include <stdlib.h>

#include "base/assert.h"
#include "check.h"

enum { ROW = 34, STEP = 46, LEFT = 90, TOP = 40 };

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Moments are drawn at equal distances: their order matters, and microseconds would be invisible
 * beside seconds. */
static size_t rank_of(const uint64_t *moments, size_t n, uint64_t moment)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (moments[middle] < moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t sorted_moments(const struct history_op *ops, size_t n_ops, uint64_t *out)
{
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < n_ops; i++) {
        out[n++] = ops[i].invoked;
        out[n++] = ops[i].completed;
    }
    qsort(out, n, sizeof(*out), by_time);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || out[kept - 1] != out[i])
            out[kept++] = out[i];
    }
    return kept;
}

static const char *colour(const struct history_op *op, bool is_failed)
{
    if (is_failed)
        return "#d03030";
    switch (op->result) {
    case HISTORY_GRANTED:
        return op->kind == HISTORY_UNLOCK ? "#8fb8de" : "#7fbf7f";
    case HISTORY_DENIED:
        return "#e0b050";
    case HISTORY_BLOCKED:
        return "#c9a0dc";
    default:
        return "#bbbbbb";
    }
}

static void draw_op(const struct history *history, const struct history_op *op, size_t from,
                    size_t to, bool is_failed, FILE *out)
{
    unsigned row = op->owner == HISTORY_NO_OWNER ? history->n_owners : op->owner;
    size_t x = LEFT + from * STEP;
    size_t width = to > from ? (to - from) * STEP - 4 : 6;

    fprintf(out,
            "<g><title>%s %u-%u %s %s, %lu to %lu ns</title>"
            "<rect x='%zu' y='%u' width='%zu' height='22' rx='4' fill='%s'/>"
            "<text x='%zu' y='%u'>%s %u-%u%s</text></g>\n",
            history_kind_names[op->kind], op->range.first, op->range.last,
            op->range.exclusive ? "exclusive" : "shared", history_result_names[op->result],
            op->invoked, op->completed, x, TOP + row * ROW, width, colour(op, is_failed), x + 4,
            TOP + row * ROW + 15, history_kind_names[op->kind], op->range.first, op->range.last,
            op->range.exclusive ? "x" : "s");
}

void check_picture(const struct history *history, const struct history_op *ops, size_t n_ops,
                   size_t failed, FILE *out)
{
    uint64_t *moments = calloc(2 * n_ops + 1, sizeof(*moments));
    size_t n;

    HF_ASSERT(moments && n_ops > 0);
    n = sorted_moments(ops, n_ops, moments);
    fprintf(
        out,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%zu' height='%u' font-family='sans-serif' "
        "font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n"
        "<text x='8' y='20' font-size='14'>No order of these operations explains every answer; "
        "time runs to the right</text>\n",
        LEFT + n * STEP + 20, TOP + (history->n_owners + 1) * ROW + 20);
    for (unsigned o = 0; o < history->n_owners; o++)
        fprintf(out, "<text x='8' y='%u'>%u.%u</text>\n", TOP + o * ROW + 15,
                history->owners[o].host, history->owners[o].process);
    fprintf(out, "<text x='8' y='%u'>hosts</text>\n", TOP + history->n_owners * ROW + 15);
    for (size_t i = 0; i < n_ops; i++)
        draw_op(history, &ops[i], rank_of(moments, n, ops[i].invoked),
                rank_of(moments, n, ops[i].completed), i == failed, out);
    fputs("</svg>\n", out);
    free(moments);
}
