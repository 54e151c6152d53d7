#include "history.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"

const char *const history_kind_names[HISTORY_KINDS] = {
    "test",  "lock",   "enter",   "wait",    "grant", "unlock", "cancel", "reclaim",
    "lapse", "weaken", "release", "restore", "leave", "crash",  "restart"};
const char *const history_result_names[] = {"granted", "denied", "blocked", "maybe"};

static bool word_of(const char *word, const char *const *words, size_t n, unsigned *out)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = (unsigned)i;
            return true;
        }
    }
    return false;
}

static bool read_owner(struct history *history, const char *word, uint8_t *out)
{
    unsigned host, process;
    int end = 0;

    if (sscanf(word, "%u.%u%n", &host, &process, &end) != 2 || word[end] || host > UINT8_MAX)
        return false;
    for (unsigned i = 0; i < history->n_owners; i++) {
        if (history->owners[i].host == host && history->owners[i].process == process) {
            *out = (uint8_t)i;
            return true;
        }
    }
    if (history->n_owners == HISTORY_OWNERS)
        return false;
    *out = (uint8_t)history->n_owners;
    history->owners[history->n_owners].host = host;
    history->owners[history->n_owners++].process = process;
    return true;
}

static bool read_range(unsigned first, unsigned last, const char *mode, struct history_range *out)
{
    *out = (struct history_range){(uint8_t)first, (uint8_t)last, mode[0] == 'x'};
    return first <= last && last < HISTORY_CELLS && (!strcmp(mode, "x") || !strcmp(mode, "s"));
}

/* True if this kind of operation can have this result. */
static bool fits(const struct history_op *op)
{
    switch (op->kind) {
    case HISTORY_WAIT:
        return op->result == HISTORY_BLOCKED || op->result == HISTORY_MAYBE;
    case HISTORY_LAPSE:
    case HISTORY_LEAVE:
    case HISTORY_WEAKEN:
    case HISTORY_RELEASE:
    case HISTORY_RESTORE:
        return op->result == HISTORY_MAYBE;
    case HISTORY_GRANT:
    case HISTORY_UNLOCK:
    case HISTORY_CRASH:
    case HISTORY_RESTART:
        return op->result == HISTORY_GRANTED || op->result == HISTORY_MAYBE;
    default:
        return op->result != HISTORY_BLOCKED;
    }
}

static const char *read_op(struct history *history, const char *line, char *file,
                           struct history_op *op)
{
    char owner[32], kind[16], mode[2], result[16], holder[32], held_mode[2];
    unsigned first, last, held_first, held_last, k, r, host;
    int n = sscanf(line, "%63s %31s %15s %u %u %1s %lu %lu %15s %31s %u %u %1s", file, owner, kind,
                   &first, &last, mode, &op->invoked, &op->completed, result, holder, &held_first,
                   &held_last, held_mode);

    if (n != 9 && n != 13)
        return "not the fields of an operation";
    if (!word_of(kind, history_kind_names, HISTORY_KINDS, &k) ||
        !word_of(result, history_result_names, 4, &r))
        return "unknown kind or result";
    op->kind = (enum history_kind)k;
    op->result = (enum history_result)r;
    op->owner = op->holder = HISTORY_NO_OWNER;
    if (op->kind == HISTORY_CRASH && sscanf(owner, "%u.*", &host) == 1)
        op->host = (uint8_t)host;
    else if (op->kind != HISTORY_RESTART && !read_owner(history, owner, &op->owner))
        return "not an owner, or too many owners";
    if (op->owner != HISTORY_NO_OWNER)
        op->host = (uint8_t)history->owners[op->owner].host;
    if (!read_range(first, last, mode, &op->range) || op->completed < op->invoked || !fits(op))
        return "not a range, completed before it was invoked, or a result that the kind cannot "
               "have";
    if (n == 13 && (!read_owner(history, holder, &op->holder) ||
                    !read_range(held_first, held_last, held_mode, &op->held)))
        return "not a holder";
    return NULL;
}

static void *grown(void *memory, size_t n, size_t size)
{
    memory = realloc(memory, n * size);
    HF_ASSERT(memory);
    return memory;
}

static struct history_file *file_of(struct history *history, const char *name)
{
    struct history_file *file;

    for (size_t i = 0; i < history->n_files; i++) {
        if (strcmp(history->files[i].name, name) == 0)
            return &history->files[i];
    }
    history->files = grown(history->files, history->n_files + 1, sizeof(*file));
    file = &history->files[history->n_files++];
    *file = (struct history_file){0};
    hf_text_copy(file->name, sizeof(file->name), name);
    return file;
}

static void add(struct history_file *file, const struct history_op *op)
{
    if (file->n_ops == file->size) {
        file->size = file->size ? file->size * 2 : 64;
        file->ops = grown(file->ops, file->size, sizeof(*op));
    }
    file->ops[file->n_ops++] = *op;
}

static int by_invocation(const void *a, const void *b)
{
    const struct history_op *x = a, *y = b;

    return (x->invoked > y->invoked) - (x->invoked < y->invoked);
}

/* Notes which owners each crash ends; this is known only when all owners are. */
static void name_crashed(struct history *history)
{
    for (size_t f = 0; f < history->n_files; f++) {
        for (size_t i = 0; i < history->files[f].n_ops; i++) {
            struct history_op *op = &history->files[f].ops[i];

            for (unsigned o = 0; op->kind == HISTORY_CRASH && o < history->n_owners; o++) {
                if (history->owners[o].host == op->host)
                    op->owners |= UINT32_C(1) << o;
            }
        }
    }
}

bool history_read(struct history *history, FILE *in, char error[256])
{
    char line[512], name[HISTORY_NAME_MAX];
    size_t number = 0;

    *history = (struct history){0};
    while (fgets(line, sizeof(line), in)) {
        struct history_op op = {0};
        const char *wrong;

        number++;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        wrong = read_op(history, line, name, &op);
        if (wrong) {
            (void)snprintf(error, 256, "line %zu: %s", number, wrong);
            return false;
        }
        add(file_of(history, name), &op);
    }
    name_crashed(history);
    for (size_t i = 0; i < history->n_files; i++)
        qsort(history->files[i].ops, history->files[i].n_ops, sizeof(struct history_op),
              by_invocation);
    return true;
}

void history_free(struct history *history)
{
    for (size_t i = 0; i < history->n_files; i++)
        free(history->files[i].ops);
    free(history->files);
}

static void print_owner(const struct history *history, unsigned owner, FILE *out)
{
    fprintf(out, "%u.%u", history->owners[owner].host, history->owners[owner].process);
}

static void print_range(struct history_range range, FILE *out)
{
    fprintf(out, " %u %u %c", range.first, range.last, range.exclusive ? 'x' : 's');
}

void history_print_op(const struct history *history, const struct history_op *op, FILE *out)
{
    if (op->owner != HISTORY_NO_OWNER)
        print_owner(history, op->owner, out);
    else if (op->kind == HISTORY_CRASH)
        fprintf(out, "%u.*", op->host);
    else
        fputs("*.*", out);
    fprintf(out, " %s", history_kind_names[op->kind]);
    print_range(op->range, out);
    fprintf(out, " %lu %lu %s", op->invoked, op->completed, history_result_names[op->result]);
    if (op->holder != HISTORY_NO_OWNER) {
        fputc(' ', out);
        print_owner(history, op->holder, out);
        print_range(op->held, out);
    }
}
