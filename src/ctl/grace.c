#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ctl/confirm.h"
#include "ctl/ctl.h"
#include "ctl/progress.h"

static bool describe(const json_t *status, char text[CTL_WORD_MAX])
{
    const json_t *grace = json_object_get(status, "grace");
    bool active = json_is_true(json_object_get(grace, "active"));
    double reclaimed = ctl_number(grace, "reclaimed");
    double held = ctl_number(grace, "held_seconds");
    double all = reclaimed + ctl_number(grace, "unreclaimed");
    char bar[CTL_WORD_MAX];

    if (held > 0 && !active)
        hf_format(text, CTL_WORD_MAX, "new locks are held back for %.0f s", held);
    else if (active)
        hf_format(text, CTL_WORD_MAX, "grace %.40s %.0f of %.0f reclaimed, %.0f s left",
                  ctl_bar(reclaimed, all, bar), reclaimed, all,
                  ctl_number(grace, "remaining_seconds"));
    else
        hf_format(text, CTL_WORD_MAX, "no grace period: locks are granted as usual");
    return active || held > 0;
}

static int end(struct ctl *ctl)
{
    json_t *answer;
    int rv;

    if (!ctl_confirm(ctl,
                     "End the grace period now? Locks that are not reclaimed yet are released."))
        return CTL_REFUSED;
    rv = ctl_ask(ctl, "POST", "grace/end", "", &answer);
    if (rv != CTL_OK)
        return rv;
    if (ctl->json)
        ctl_print_json(answer);
    else if (json_is_true(json_object_get(answer, "ended")))
        printf("Ended; %.0f released unreclaimed.\n", ctl_number(answer, "released"));
    else
        puts("There was no grace period.");
    json_decref(answer);
    return CTL_OK;
}

static int hold(struct ctl *ctl, const char *seconds)
{
    char body[CTL_WORD_MAX];
    json_t *answer;
    int rv;

    if (strspn(seconds, "0123456789") != strlen(seconds) || strlen(seconds) - 1 > 3 ||
        strtoul(seconds, NULL, 10) > 3600) {
        (void)fprintf(
            stderr,
            "holdfastctl: grace hold takes seconds, from 0 (no longer) to 3600; not \"%s\"\n",
            seconds);
        return CTL_USAGE;
    }
    hf_format(body, sizeof(body), "{\"seconds\": %lu}", strtoul(seconds, NULL, 10));
    rv = ctl_ask(ctl, "POST", "grace/hold", body, &answer);
    if (rv != CTL_OK)
        return rv;
    if (ctl->json)
        ctl_print_json(answer);
    else if (ctl_number(answer, "held_seconds") > 0)
        printf("New locks are held back for %.0f s.\n", ctl_number(answer, "held_seconds"));
    else
        puts("New locks are held back no longer.");
    json_decref(answer);
    return CTL_OK;
}

int ctl_grace(struct ctl *ctl, int argc, char **argv)
{
    json_t *grace;
    int rv;

    if (argc == 1 && strcmp(argv[0], "end") == 0)
        return end(ctl);
    if (argc == 2 && strcmp(argv[0], "hold") == 0)
        return hold(ctl, argv[1]);
    if (argc > 0)
        return CTL_USAGE;
    rv = ctl_ask(ctl, "GET", "grace", NULL,
                 &grace); /* a node that does not serve refuses the question */
    if (rv == CTL_OK && ctl->json)
        ctl_print_json(grace);
    else if (rv == CTL_OK)
        rv = ctl_follow(ctl, "status", describe);
    json_decref(grace);
    return rv;
}
