#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ctl/ctl.h"
#include "ctl/progress.h"

static bool describe_all(const json_t *status, char text[CTL_WORD_MAX])
{
    const json_t *n = json_object_get(status, "notifications");
    double pending = ctl_number(n, "pending");
    double ended =
        ctl_number(n, "delivered") + ctl_number(n, "failing") + ctl_number(n, "given_up");
    char bar[CTL_WORD_MAX];

    hf_format(text, CTL_WORD_MAX,
              "notices %.40s %.0f delivered, %.0f pending, %.0f failing, %.0f given up",
              ctl_bar(ended, ended + pending, bar), ctl_number(n, "delivered"), pending,
              ctl_number(n, "failing"), ctl_number(n, "given_up"));
    return pending > 0;
}

static bool describe_one(const json_t *client, char text[CTL_WORD_MAX])
{
    const json_t *notice = json_object_get(client, "notification");
    const char *status = ctl_text(notice, "status");
    const char *error = ctl_text(notice, "error");
    char word[CTL_WORD_MAX];

    hf_format(text, CTL_WORD_MAX,
              error[0] ? "notice to %.150s: %s, attempt %.0f: %.80s" : "notice to %.150s: %s",
              ctl_word_client(client, word), status, ctl_number(notice, "attempts"), error);
    return strcmp(status, "pending") == 0;
}

/* Tells how the notices ended: CTL_TROUBLE unless every notice was delivered. */
static int result(struct ctl *ctl, const char *path)
{
    json_t *answer;
    const json_t *n;
    bool delivered;
    int rv = ctl_ask(ctl, "GET", path, NULL, &answer);

    if (rv != CTL_OK)
        return rv;
    n = json_object_get(answer, "notification");
    if (n) {
        delivered = strcmp(ctl_text(n, "status"), "delivered") == 0;
    } else {
        n = json_object_get(answer, "notifications");
        delivered = ctl_number(n, "failing") + ctl_number(n, "given_up") == 0;
    }
    if (ctl->json)
        ctl_print_json(n);
    json_decref(answer);
    return delivered ? CTL_OK : CTL_TROUBLE;
}

int ctl_notify(struct ctl *ctl, int argc, char **argv)
{
    char path[64] = "status";
    char body[64] = "{}";
    json_t *answer;
    char id[32];
    int rv;

    if (argc > 1)
        return CTL_USAGE;
    if (argc == 1) {
        rv = ctl_find_client(ctl, argv[0], id);
        if (rv != CTL_OK)
            return rv;
        hf_format(body, sizeof(body), "{\"client\": \"%s\"}", id);
        hf_format(path, sizeof(path), "clients/%s", id);
    }
    rv = ctl_ask(ctl, "POST", "notifications", body, &answer);
    if (rv != CTL_OK)
        return rv;
    json_decref(answer);
    rv = ctl_follow(ctl, path, argc == 1 ? describe_one : describe_all);
    return rv == CTL_OK ? result(ctl, path) : rv;
}
