#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ctl/confirm.h"
#include "ctl/ctl.h"

/* Makes the path of the request, and the question to confirm it, from the command line. */
static int target(struct ctl *ctl, char path[CTL_PATH_MAX], char *question, size_t question_size)
{
    char id[32];
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

int ctl_release(struct ctl *ctl, int argc, char **argv)
{
    char path[CTL_PATH_MAX];
    char question[320];
    json_t *answer;
    int rv;

    (void)argv;
    if (argc > 0)
        return CTL_USAGE;
    rv = target(ctl, path, question, sizeof(question));
    if (rv != CTL_OK)
        return rv;
    if (!ctl_confirm(ctl, question))
        return CTL_REFUSED;
    rv = ctl_ask(ctl, "DELETE", path, NULL, &answer);
    if (rv != CTL_OK)
        return rv;
    if (ctl->json) {
        ctl_print_json(answer);
    } else {
        printf("Released %.0f.\n", ctl_number(answer, "released"));
        print_granted(ctl, json_object_get(answer, "granted"));
    }
    json_decref(answer);
    return CTL_OK;
}
