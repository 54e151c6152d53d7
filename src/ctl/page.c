#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

/* Prints the address of the live page with a session behind #, which browsers do not send to any
 * server. */
int ctl_page(struct ctl *ctl, int argc, char **argv)
{
    bool changes = argc == 1 && strcmp(argv[0], "changes") == 0;
    const char *page;
    json_t *answer;
    int rv;

    if (argc > 1 || (argc == 1 && !changes))
        return CTL_USAGE;
    rv = ctl_ask(ctl, "POST", "session",
                 changes ? "{\"level\":\"changes\"}" : "{\"level\":\"files\"}", &answer);
    if (rv != CTL_OK)
        return rv;
    page = ctl_text(answer, "page");
    if (ctl->json) {
        ctl_print_json(answer);
    } else if (page[0]) {
        printf("%s#session=%s\n", page, ctl_text(answer, "session"));
    } else {
        (void)fputs("holdfastctl: there is no page: admin.listen is empty, or cannot be used\n",
                    stderr);
        rv = CTL_REFUSED;
    }
    json_decref(answer);
    return rv;
}
