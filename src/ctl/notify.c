#include <stdio.h>

#include "base/text.h"
#include "ctl/ctl.h"
#include "ctl/progress.h"

static bool describe(const json_t *status, char text[CTL_WORD_MAX])
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

int ctl_notify(struct ctl *ctl, int argc, char **argv)
{
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
    }
    rv = ctl_ask(ctl, "POST", "notifications", body, &answer);
    if (rv != CTL_OK)
        return rv;
    if (ctl->json)
        ctl_print_json(answer);
    json_decref(answer);
    return ctl->json ? CTL_OK : ctl_follow(ctl, describe);
}
