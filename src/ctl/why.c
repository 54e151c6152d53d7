/*
 * `holdfastctl why CLIENT|FILE|PATH` shows what a request waits for. For each file that matching
 * requests wait for, it shows the locks in the way, each followed to the lock at the root of the
 * wait (the owner of a lock may wait for a lock itself), whether its holder was heard from lately,
 * the queue in the order of grants, and what an operator can do.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "ctl/ctl.h"

enum {
    /* How many locks in the way, and how many waiters, of a file are shown; --limit changes it. */
    SHOWN = 20,
    /*
     * How far a chain of waits is followed: clients can make one as long as they may have waiters.
     */
    DEPTH_MAX = 40,
    ADVICE_MAX = 4 /* for how many locks at roots of waits commands are printed */
};

struct why {
    struct ctl *ctl;
    size_t shown;
    json_t *waiters; /* all waiters, the oldest first */
    json_t *queues;  /* waiters by file */
    json_t *held;    /* locks by file, for the files that are waited for */
    json_t *waits;   /* the oldest wait of each owner, by owner */
    json_t *clients; /* clients by id */
    json_t *told;    /* locks that have been printed, by id */
    const json_t *roots[ADVICE_MAX];
    size_t n_roots;
};

/* ---- what is in the way of what ---- */

static uint64_t first_of(const json_t *row)
{
    return strtoull(ctl_text(json_object_get(row, "range"), "first"), NULL, 10);
}

static uint64_t last_of(const json_t *row)
{
    const char *last = ctl_text(json_object_get(row, "range"), "last");

    return last[0] ? strtoull(last, NULL, 10) : UINT64_MAX;
}

static bool is_same(const json_t *a, const json_t *b, const char *key)
{
    return json_equal(json_object_get(a, key), json_object_get(b, key)) != 0;
}

static bool is_same_owner(const json_t *a, const json_t *b)
{
    return is_same(a, b, "owner") &&
           is_same(json_object_get(a, "client"), json_object_get(b, "client"), "id");
}

/* True if the lock is in the way of the request, which is for the same file. */
static bool conflicts(const json_t *lock, const json_t *waiter)
{
    bool shared = strcmp(ctl_text(lock, "mode"), "shared") == 0 && is_same(lock, waiter, "mode");

    return !shared && !is_same_owner(lock, waiter) && first_of(lock) <= last_of(waiter) &&
           first_of(waiter) <= last_of(lock);
}

static void owner_key(const json_t *row, char key[CTL_PATH_MAX])
{
    const json_t *owner = json_object_get(row, "owner");

    hf_format(key, CTL_PATH_MAX, "%s %.0f %s", ctl_text(json_object_get(row, "client"), "id"),
              ctl_number(owner, "svid"), ctl_text(owner, "handle"));
}

/* Returns the oldest waiting request of the lock's owner; NULL: the owner does not wait. */
static const json_t *wait_of(const struct why *why, const json_t *lock)
{
    char key[CTL_PATH_MAX];

    owner_key(lock, key);
    return json_object_get(why->waits, key);
}

static const json_t *held_of(const struct why *why, const json_t *waiter)
{
    return json_object_get(why->held, ctl_text(waiter, "file"));
}

static const json_t *queue_of(const struct why *why, const json_t *waiter)
{
    return json_object_get(why->queues, ctl_text(waiter, "file"));
}

/* ---- words ---- */

static void print_client(const struct why *why, const json_t *row, enum ctl_color color)
{
    char text[CTL_WORD_MAX];

    ctl_paint(why->ctl, color, ctl_word_client(json_object_get(row, "client"), text));
    printf("  %s", ctl_word_owner(json_object_get(row, "owner"), text));
}

static void print_bytes(const json_t *row)
{
    char text[CTL_WORD_MAX];

    printf("  %s, %s", ctl_word_range(json_object_get(row, "range"), text), ctl_text(row, "mode"));
}

/* Prints when the daemon last had a request or an answer of the client. */
static void print_heard(const struct why *why, const json_t *row)
{
    const char *id = ctl_text(json_object_get(row, "client"), "id");
    const json_t *client = json_object_get(why->clients, id);
    char text[CTL_WORD_MAX];

    if (client)
        printf(", last heard from %s ago", ctl_word_age(ctl_number(client, "idle_seconds"), text));
}

static void print_lock(const struct why *why, const json_t *lock, unsigned depth)
{
    char text[CTL_WORD_MAX];

    printf("%*slock %s  ", (int)(2 + 2 * depth), "", ctl_text(lock, "id"));
    print_client(why, lock, CTL_BOLD);
    print_bytes(lock);
    printf("  held %s", ctl_word_age(ctl_number(lock, "held_seconds"), text));
    print_heard(why, lock);
    puts(json_is_true(json_object_get(lock, "unreclaimed")) ? ", not reclaimed yet" : "");
}

/* ---- from a waiter to the root ---- */

static void note_root(struct why *why, const json_t *lock)
{
    for (size_t i = 0; i < why->n_roots; i++) {
        if (why->roots[i] == lock)
            return;
    }
    if (why->n_roots < ADVICE_MAX)
        why->roots[why->n_roots++] = lock;
}

static void print_chain(struct why *why, const json_t *lock, unsigned depth);

static void say_rest(size_t n, const char *what)
{
    if (n > 0)
        printf("    and %zu more %s (--limit shows more)\n", n, what);
}

/* Prints the locks in the way of a request, each with what its owner waits for itself. */
static void print_blockers(struct why *why, const json_t *waiter, unsigned depth)
{
    const json_t *lock;
    size_t n = 0;
    size_t i;

    json_array_foreach(held_of(why, waiter), i, lock)
    {
        if (conflicts(lock, waiter) && n++ < why->shown)
            print_chain(why, lock, depth);
    }
    say_rest(n > why->shown ? n - why->shown : 0, "in the way");
}

/* Prints where a lock's wait leads. Each lock is followed only once, so that there are no more
 * lines than locks. */
static void print_chain(struct why *why, const json_t *lock, unsigned depth)
{
    const json_t *next = wait_of(why, lock);
    const char *id = ctl_text(lock, "id");
    char text[CTL_WORD_MAX];

    if (json_object_get(why->told, id)) {
        printf("%*slock %s, see above\n", (int)(2 + 2 * depth), "", id);
        return;
    }
    json_object_set_new(why->told, id, json_true());
    print_lock(why, lock, depth);
    if (!next) {
        note_root(why, lock);
        return;
    }
    if (depth > DEPTH_MAX) {
        printf("%*sits owner waits itself, and so on: the chain is longer than is shown\n",
               (int)(4 + 2 * depth), "");
        return;
    }
    printf("%*sits owner waits itself, for %s", (int)(4 + 2 * depth), "",
           ctl_word_file(next, text));
    print_bytes(next);
    printf("  waited %s:\n", ctl_word_age(ctl_number(next, "waiting_seconds"), text));
    print_blockers(why, next, depth + 1);
}

/* ---- one file ---- */

static bool is_in_the_way(const json_t *lock, const json_t *queue)
{
    const json_t *waiter;
    size_t i;

    json_array_foreach(queue, i, waiter)
    {
        if (conflicts(lock, waiter))
            return true;
    }
    return false;
}

static void print_queue(struct why *why, const json_t *queue)
{
    const json_t *waiter;
    char text[CTL_WORD_MAX];
    size_t i;

    puts("  waiting, the oldest request first:");
    json_array_foreach(queue, i, waiter)
    {
        if (i == why->shown)
            break;
        printf("    %zu  ", i + 1);
        print_client(why, waiter, CTL_PLAIN);
        print_bytes(waiter);
        printf("  waited %s%s\n", ctl_word_age(ctl_number(waiter, "waiting_seconds"), text),
               json_is_true(json_object_get(waiter, "granting")) ? ", granted; is being told" : "");
    }
    say_rest(json_array_size(queue) - i, "waiting");
}

/* Prints the holders that are not NFSv3 clients, and returns how many there are. */
static size_t print_outside(const json_t *queue)
{
    char text[CTL_WORD_MAX];
    const json_t *waiter;
    size_t n = 0;
    size_t i;

    json_array_foreach(queue, i, waiter)
    {
        const json_t *outside = json_object_get(waiter, "outside");

        if (json_is_object(outside) && n++ == 0)
            printf("  held:\n    %s\n    not by an NFSv3 client: NFSv4, SMB, or a program of the "
                   "server (lslocks)\n",
                   ctl_word_outside(outside, text));
    }
    return n;
}

static void print_file(struct why *why, const json_t *about)
{
    const json_t *queue = queue_of(why, about);
    const json_t *lock;
    char text[CTL_WORD_MAX];
    size_t n = 0;
    size_t i;

    ctl_paint(why->ctl, CTL_BOLD, ctl_word_file(about, text));
    putchar('\n');
    json_array_foreach(held_of(why, about), i, lock)
    {
        if (!is_in_the_way(lock, queue))
            continue;
        if (n == 0)
            puts("  held:");
        if (n++ < why->shown)
            print_chain(why, lock, 1);
    }
    say_rest(n > why->shown ? n - why->shown : 0, "in the way");
    if (n == 0 && print_outside(queue) == 0)
        puts("  no lock is in the way: requests are being granted");
    print_queue(why, queue);
}

/* Prints commands for the operator. Only root of this host, or the holder of a token, may run them;
 * the daemon says so. */
static void print_advice(const struct why *why)
{
    for (size_t i = 0; i < why->n_roots; i++) {
        const json_t *lock = why->roots[i];

        if (i == 0)
            puts("what you can do:");
        printf(
            "  holdfastctl check %s\n      see whether the holder of lock %s is alive\n"
            "  holdfastctl release --lock %s\n      free it without the holder's consent\n"
            "  holdfastctl client dead %s\n      if its host is dead for certain: free all that it "
            "has\n",
            ctl_text(json_object_get(lock, "client"), "id"), ctl_text(lock, "id"),
            ctl_text(lock, "id"), ctl_text(json_object_get(lock, "client"), "id"));
    }
}

/* ---- which requests are meant ---- */

/* True if the word names the file: the whole path, or its end from one of its folders on
 * ("build/lock"), or the whole handle. */
static bool is_file(const json_t *row, const char *word)
{
    const char *path = ctl_text(row, "path");
    size_t len = strlen(word);
    size_t all = strlen(path);

    if (strcmp(path, word) == 0 || strcasecmp(ctl_text(row, "file"), word) == 0)
        return true;
    return len > 0 && all > len && word[0] != '/' && path[all - len - 1] == '/' &&
           strcmp(path + all - len, word) == 0;
}

/* Chooses the waiters that the word (NULL: any) means, one for each file; the others of the file
 * are shown with it. */
static json_t *choose(const struct why *why, const char *word)
{
    json_t *chosen = json_array();
    json_t *seen = json_object();
    json_t *waiter;
    size_t i;

    json_array_foreach(why->waiters, i, waiter)
    {
        const char *file = ctl_text(waiter, "file");
        bool meant =
            !word || ctl_is_named(json_object_get(waiter, "client"), word) || is_file(waiter, word);

        if (!meant || json_object_get(seen, file))
            continue;
        json_object_set_new(seen, file, json_true());
        json_array_append(chosen, waiter);
    }
    json_decref(seen);
    return chosen;
}

/* ---- reading ---- */

static int by_age(const void *a, const void *b)
{
    const json_t *const *x = a;
    const json_t *const *y = b;
    double difference = ctl_number(*y, "waiting_seconds") - ctl_number(*x, "waiting_seconds");

    return difference > 0 ? 1 : difference < 0 ? -1 : 0;
}

/* Returns a new array of the rows, the oldest first. */
static json_t *sort(json_t *rows)
{
    size_t n = json_array_size(rows);
    json_t **pointers = n ? malloc(n * sizeof(json_t *)) : NULL;
    json_t *sorted = json_array();

    for (size_t i = 0; pointers && i < n; i++)
        pointers[i] = json_array_get(rows, i);
    if (pointers)
        qsort(pointers, n, sizeof(json_t *), by_age);
    for (size_t i = 0; pointers && i < n; i++)
        json_array_append(sorted, pointers[i]);
    free(pointers);
    json_decref(rows);
    return sorted;
}

/* Appends the row to the array that belongs to its file. */
static void add_by_file(json_t *index, json_t *row)
{
    json_t *rows = json_object_get(index, ctl_text(row, "file"));

    if (!rows) {
        rows = json_array();
        json_object_set_new(index, ctl_text(row, "file"), rows);
    }
    json_array_append(rows, row);
}

static void index_waiters(struct why *why)
{
    char key[CTL_PATH_MAX];
    json_t *waiter;
    size_t i;

    json_array_foreach(why->waiters, i, waiter)
    {
        add_by_file(why->queues, waiter);
        owner_key(waiter, key);
        if (!json_is_true(json_object_get(waiter, "granting")) && !json_object_get(why->waits, key))
            json_object_set(why->waits, key, waiter);
    }
}

/*
 * Reads all lists. They are read one after the other, so a lock may have gone between two of them.
 */
static int read_all(struct why *why)
{
    struct ctl whole = *why->ctl;
    json_t *clients = NULL;
    json_t *locks = NULL;
    json_t *row;
    size_t i;
    int rv;

    whole.limit = NULL;
    rv = ctl_ask_list(&whole, "waiters", &why->waiters);
    if (rv == CTL_OK)
        rv = ctl_ask_waited(&whole, &locks);
    if (rv == CTL_OK)
        rv = ctl_ask_list(&whole, "clients", &clients);
    if (rv == CTL_OK) {
        why->waiters = sort(why->waiters);
        index_waiters(why);
    }
    json_array_foreach(locks, i, row) add_by_file(why->held, row);
    json_array_foreach(clients, i, row) json_object_set(why->clients, ctl_text(row, "id"), row);
    json_decref(clients);
    json_decref(locks);
    return rv;
}

/* ---- the command ---- */

/* Describes, for --json, the waiters of a file, each with the locks in its way as "blockers". */
static json_t *describe(const struct why *why, const json_t *about)
{
    json_t *waiters = json_array();
    json_t *waiter;
    json_t *lock;
    size_t i;
    size_t k;

    json_array_foreach(queue_of(why, about), i, waiter)
    {
        json_t *row = json_copy(waiter);
        json_t *blockers = json_array();

        json_array_foreach(held_of(why, about), k, lock)
        {
            if (conflicts(lock, waiter))
                json_array_append(blockers, lock);
        }
        json_object_set_new(row, "blockers", blockers);
        json_array_append_new(waiters, row);
    }
    return waiters;
}

static void print(struct why *why, const json_t *chosen)
{
    json_t *files = json_array();
    const json_t *about;
    size_t i;

    json_array_foreach(chosen, i, about)
    {
        if (why->ctl->json)
            json_array_append_new(files, describe(why, about));
        else
            print_file(why, about);
    }
    if (why->ctl->json)
        ctl_print_json(files);
    else
        print_advice(why);
    json_decref(files);
}

static int explain(struct why *why, const char *word)
{
    json_t *chosen = choose(why, word);
    int rv = json_array_size(chosen) > 0 || !word ? CTL_OK : CTL_NOT_FOUND;

    if (rv == CTL_OK)
        print(why, chosen);
    else
        (void)fprintf(stderr,
                      "holdfastctl: no request of a client \"%s\" waits, and none for such a file "
                      "(see holdfastctl waiters)\n",
                      word);
    json_decref(chosen);
    return rv;
}

static int run(struct ctl *ctl, const char *word)
{
    struct why why = {
        .ctl = ctl,
        .shown = ctl->limit ? strtoull(ctl->limit, NULL, 10) : SHOWN,
        .queues = json_object(),
        .held = json_object(),
        .waits = json_object(),
        .clients = json_object(),
        .told = json_object(),
    };
    int rv = read_all(&why);

    if (rv == CTL_OK)
        rv = explain(&why, word);
    json_decref(why.waiters);
    json_decref(why.queues);
    json_decref(why.held);
    json_decref(why.waits);
    json_decref(why.clients);
    json_decref(why.told);
    return rv;
}

int ctl_why(struct ctl *ctl, int argc, char **argv)
{
    return argc == 1 ? run(ctl, argv[0]) : CTL_USAGE;
}

/* Shows all waits as a tree. It takes no filter, because a filter would cut chains. */
int ctl_show_tree(struct ctl *ctl)
{
    if (!ctl->client && !ctl->file && !ctl->export && !ctl->owner && !ctl->address && !ctl->waited)
        return run(ctl, NULL);
    (void)fprintf(stderr, "holdfastctl: --tree shows every wait; for one, holdfastctl why\n");
    return CTL_USAGE;
}
