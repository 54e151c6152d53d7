#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "ctl/confirm.h"
#include "ctl/ctl.h"

/* Makes the path of the request, and the question to confirm it, from the command line. */
static int target(struct ctl *ctl, char path[CTL_PATH_MAX], char *question, size_t question_size,
                  char id[32])
{
    int rv;

    if (!!ctl->client + !!ctl->file + !!ctl->lock != 1)
        return CTL_USAGE;
    if (ctl->client) {
        rv = ctl_find_client(ctl, ctl->client, id);
        if (rv != CTL_OK)
            return rv;
        hf_format(path, CTL_PATH_MAX, "clients/%s", id);
        hf_format(question, question_size,
                  "Release every lock of client %.200s? It is not notified, and may go on writing.",
                  ctl->client);
    } else if (ctl->file) {
        bool by_path = ctl->file[0] == '/';

        if (!by_path && strspn(ctl->file, "0123456789abcdefABCDEF") != strlen(ctl->file)) {
            (void)fprintf(stderr,
                          "holdfastctl: a file is released by its absolute path, or by its handle "
                          "in hex (see holdfastctl locks --json)\n");
            return CTL_USAGE;
        }
        hf_format(path, CTL_PATH_MAX, "%s%.256s", by_path ? "files" : "files/",
                  by_path ? "" : ctl->file);
        if (by_path)
            ctl_add_query(path, "path", ctl->file);
        hf_format(question, question_size,
                  "Release every lock and waiter of file %.200s? Their owners are not notified.",
                  ctl->file);
    } else {
        if (strspn(ctl->lock, "0123456789") != strlen(ctl->lock))
            return CTL_USAGE;
        hf_format(path, CTL_PATH_MAX, "locks/%.32s", ctl->lock);
        hf_format(question, question_size, "Release lock %.32s? Its owner is not notified.",
                  ctl->lock);
    }
    return CTL_OK;
}

static void print_granted(struct ctl *ctl, const json_t *granted)
{
    char client[CTL_WORD_MAX];
    char file[CTL_WORD_MAX];
    char range[CTL_WORD_MAX];
    json_t *waiter;
    size_t i;

    json_array_foreach((json_t *)granted, i, waiter)
    {
        (void)fputs("Granted to: ", stdout);
        ctl_paint(ctl, CTL_GREEN, ctl_word_client(json_object_get(waiter, "client"), client));
        (void)fputs(", ", stdout);
        ctl_paint(ctl, CTL_PLAIN, ctl_word_file(waiter, file));
        printf(" %s %s\n", ctl_word_range(json_object_get(waiter, "range"), range),
               ctl_text(waiter, "mode"));
    }
    if (i == 0)
        puts("No waiter was granted a lock because of it.");
}

void ctl_add_released(json_t **sum, json_t *answer)
{
    if (!*sum) {
        *sum = answer;
        return;
    }
    json_object_set_new(
        *sum, "released",
        json_integer((json_int_t)(ctl_number(*sum, "released") + ctl_number(answer, "released"))));
    json_array_extend(json_object_get(*sum, "granted"), json_object_get(answer, "granted"));
    json_decref(answer);
}

void ctl_print_released(struct ctl *ctl, const json_t *answer)
{
    if (ctl->json) {
        ctl_print_json(answer);
        return;
    }
    printf("Released %.0f.\n", ctl_number(answer, "released"));
    print_granted(ctl, json_object_get(answer, "granted"));
}

/* ---- what would be released ---- */

/* True if the command line means this row of a list: the daemon's filters match parts of names,
 * too. */
static bool is_meant(const struct ctl *ctl, const char *client, const json_t *row)
{
    const json_t *owner = json_object_get(row, "owner");
    char svid[24];

    hf_format(svid, sizeof(svid), "%.0f", ctl_number(owner, "svid"));
    return (!ctl->lock || strcmp(ctl_text(row, "id"), ctl->lock) == 0) &&
           (!ctl->client || strcmp(ctl_text(json_object_get(row, "client"), "id"), client) == 0) &&
           (!ctl->file || ctl->file[0] == '/' ||
            strcasecmp(ctl_text(row, "file"), ctl->file) == 0) &&
           (!ctl->owner || strcmp(svid, ctl->owner) == 0 ||
            strcmp(ctl_text(owner, "text"), ctl->owner) == 0 ||
            strcasecmp(ctl_text(owner, "handle"), ctl->owner) == 0);
}

static int find_meant(struct ctl *ctl, const char *list, const char *client, json_t **out)
{
    struct ctl asked = *ctl;
    json_t *rows, *row;
    size_t i;
    int rv;

    asked.client = ctl->client ? client : NULL;
    asked.owner = NULL;
    rv = ctl_ask_list(&asked, list, &rows);
    *out = json_array();
    if (rv != CTL_OK)
        return rv;
    json_array_foreach(rows, i, row)
    {
        if (is_meant(ctl, client, row))
            json_array_append(*out, row);
    }
    json_decref(rows);
    return CTL_OK;
}

static void print_lock(struct ctl *ctl, const json_t *lock)
{
    char text[CTL_WORD_MAX];

    printf("lock %s  ", ctl_text(lock, "id"));
    ctl_paint(ctl, CTL_BOLD, ctl_word_client(json_object_get(lock, "client"), text));
    printf("  %s  ", ctl_word_owner(json_object_get(lock, "owner"), text));
    ctl_paint(ctl, CTL_PLAIN, ctl_word_file(lock, text));
    printf("  %s, %s", ctl_word_range(json_object_get(lock, "range"), text),
           ctl_text(lock, "mode"));
    printf("  held %s, %.0f waiting for its file\n",
           ctl_word_age(ctl_number(lock, "held_seconds"), text), ctl_number(lock, "waiters"));
}

/* For --dry-run: shows the locks that would be released, and how many requests and reservations
 * would go with them. */
static int show_meant(struct ctl *ctl, const char *client)
{
    static const char *const LISTS[] = {"locks", "waiters", "reservations"};
    /* The release is of a client or a file, and not only of some of its locks. */
    bool all = !ctl->lock && !ctl->owner;
    json_t *found[3] = {NULL, NULL, NULL};
    json_t *lock;
    size_t i;
    int rv = CTL_OK;

    for (size_t k = 0; k < (all ? 3 : 1) && rv == CTL_OK; k++)
        rv = find_meant(ctl, LISTS[k], client, &found[k]);
    if (rv == CTL_OK && ctl->json) {
        ctl_print_json(found[0]);
    } else if (rv == CTL_OK) {
        json_array_foreach(found[0], i, lock) print_lock(ctl, lock);
        printf("Would release %zu locks, %zu waiting requests and %zu reservations. Nothing was "
               "changed.\n",
               json_array_size(found[0]), json_array_size(found[1]), json_array_size(found[2]));
    }
    for (size_t k = 0; k < 3; k++)
        json_decref(found[k]);
    return rv;
}

/* Releases the locks of an owner one by one, because the daemon releases only clients, files and
 * locks. The owner's waiting requests stay. */
static int release_owner(struct ctl *ctl, const char *client)
{
    json_t *locks, *lock, *answer, *sum = NULL;
    char path[CTL_PATH_MAX];
    char question[CTL_WORD_MAX];
    size_t i;
    int rv = find_meant(ctl, "locks", client, &locks);

    if (rv == CTL_OK && json_array_size(locks) == 0) {
        (void)fprintf(stderr, "holdfastctl: client %s has no lock of an owner \"%s\"\n",
                      ctl->client, ctl->owner);
        rv = CTL_NOT_FOUND;
    }
    hf_format(question, sizeof(question),
              "Release %zu locks of owner %.80s of client %.80s? It is "
              "not notified, and may go on writing.",
              json_array_size(locks), ctl->owner, ctl->client);
    if (rv == CTL_OK && !ctl_confirm(ctl, question))
        rv = CTL_REFUSED;
    json_array_foreach(locks, i, lock)
    {
        if (rv != CTL_OK)
            break;
        hf_format(path, sizeof(path), "locks/%s", ctl_text(lock, "id"));
        rv = ctl_ask(ctl, "DELETE", path, NULL, &answer);
        if (rv == CTL_OK)
            ctl_add_released(&sum, answer);
        else if (rv == CTL_NOT_FOUND)
            rv = CTL_OK; /* the lock was unlocked meanwhile */
    }
    if (sum)
        ctl_print_released(ctl, sum);
    json_decref(sum);
    json_decref(locks);
    return rv;
}

int ctl_release(struct ctl *ctl, int argc, char **argv)
{
    char path[CTL_PATH_MAX];
    char question[320];
    char client[32] = "";
    json_t *answer;
    int rv;

    (void)argv;
    if (argc > 0 || (ctl->owner && !ctl->client))
        return CTL_USAGE;
    rv = target(ctl, path, question, sizeof(question), client);
    if (rv != CTL_OK)
        return rv;
    if (ctl->dry_run)
        return show_meant(ctl, client);
    if (ctl->owner)
        return release_owner(ctl, client);
    if (!ctl_confirm(ctl, question))
        return CTL_REFUSED;
    rv = ctl_ask(ctl, "DELETE", path, NULL, &answer);
    if (rv != CTL_OK)
        return rv;
    ctl_print_released(ctl, answer);
    json_decref(answer);
    return CTL_OK;
}
