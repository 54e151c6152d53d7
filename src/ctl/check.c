#include <stdio.h>

#include "base/text.h"
#include "ctl/ctl.h"

static void print_step(struct ctl *ctl, const json_t *step)
{
    bool ok = json_is_true(json_object_get(step, "ok"));
    const char *advice = ctl_text(step, "advice");

    ctl_paint(ctl, ok ? CTL_GREEN : CTL_RED, ok ? "ok    " : "FAIL  ");
    printf("%-9s ", ctl_text(step, "step"));
    ctl_paint(ctl, CTL_PLAIN, ctl_text(step, "finding"));
    printf(" (%.0f ms)\n", ctl_number(step, "elapsed_seconds") * 1000);
    if (advice[0])
        printf("                to mend it: %s\n", advice);
}

static int report(struct ctl *ctl, const json_t *answer)
{
    bool reachable = json_is_true(json_object_get(answer, "reachable"));
    json_t *step;
    size_t i;

    if (ctl->json) {
        ctl_print_json(answer);
        return reachable ? CTL_OK : CTL_TROUBLE;
    }
    json_array_foreach(json_object_get(answer, "steps"), i, step) print_step(ctl, step);
    ctl_paint(ctl, reachable ? CTL_GREEN : CTL_RED,
              reachable ? "This client can be called back." : "This client cannot be called back.");
    putchar('\n');
    return reachable ? CTL_OK : CTL_TROUBLE;
}

int ctl_check(struct ctl *ctl, int argc, char **argv)
{
    char path[64];
    json_t *answer;
    char id[32];
    int rv;

    if (argc != 1)
        return CTL_USAGE;
    rv = ctl_find_client(ctl, argv[0], id);
    if (rv != CTL_OK)
        return rv;
    hf_format(path, sizeof(path), "clients/%s/check", id);
    rv = ctl_ask(ctl, "POST", path, "", &answer);
    if (rv != CTL_OK)
        return rv;
    rv = report(ctl, answer);
    json_decref(answer);
    return rv;
}
