#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ctl/confirm.h"
#include "ctl/ctl.h"

static int show(struct ctl *ctl)
{
    static const char *const TITLES[] = {"PATH", "FILES", "RANGES", "STATE"};
    struct ctl_table table;
    json_t *answer, *export;
    char text[CTL_WORD_MAX];
    size_t i;
    int rv = ctl_ask(ctl, "GET", "exports", NULL, &answer);

    if (rv != CTL_OK)
        return rv;
    if (ctl->json) {
        ctl_print_json(answer);
        json_decref(answer);
        return CTL_OK;
    }
    ctl_table_init(&table, ctl, 4, TITLES);
    json_array_foreach(json_object_get(answer, "exports"), i, export)
    {
        bool released = json_is_true(json_object_get(export, "released"));

        ctl_table_add(&table, ctl_text(export, "path"), CTL_PLAIN);
        hf_format(text, sizeof(text), "%.0f", ctl_number(export, "files"));
        ctl_table_add(&table, text, CTL_PLAIN);
        hf_format(text, sizeof(text), "%.0f", ctl_number(export, "ranges"));
        ctl_table_add(&table, text, CTL_PLAIN);
        ctl_table_add(&table, released ? "released" : "held", released ? CTL_YELLOW : CTL_GREEN);
    }
    ctl_table_print(&table);
    json_decref(answer);
    return CTL_OK;
}

static int change(struct ctl *ctl, const char *act, const char *path)
{
    char target[CTL_WORD_MAX];
    json_t *body, *answer;
    char *text;
    int rv;

    if (path[0] != '/')
        return CTL_USAGE;
    if (strcmp(act, "release") == 0 &&
        !ctl_confirm(ctl,
                     "Let this directory go? Until it is taken back, programs of this host and "
                     "other servers do not meet the locks that NFSv3 clients hold there."))
        return CTL_REFUSED;
    body = json_pack("{s:s}", "path", path);
    text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return CTL_USAGE; /* the path on the command line is not UTF-8 */
    hf_format(target, sizeof(target), "exports/%s", act);
    rv = ctl_ask(ctl, "POST", target, text, &answer);
    free(text);
    if (rv != CTL_OK)
        return rv;
    if (ctl->json)
        ctl_print_json(answer);
    else if (strcmp(act, "release") == 0)
        printf("Released; %.0f files were closed.\n", ctl_number(answer, "closed"));
    else
        puts("Taken back.");
    json_decref(answer);
    return CTL_OK;
}

int ctl_exports(struct ctl *ctl, int argc, char **argv)
{
    if (argc == 0)
        return show(ctl);
    if (argc == 2 && (strcmp(argv[0], "release") == 0 || strcmp(argv[0], "take-back") == 0))
        return change(ctl, argv[0], argv[1]);
    return CTL_USAGE;
}
