#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ctl/ctl.h"

static const char *explain(const char *reason)
{
    if (strcmp(reason, "unreachable") == 0)
        return "could not be notified: given up as crashed";
    if (strcmp(reason, "outside") == 0)
        return "a program of this host had got it";
    return "not reclaimed when grace ended";
}

static void print_losses(struct ctl *ctl, const json_t *answer)
{
    static const char *const TITLES[] = {"TIME", "CLIENT", "LOCKS", "WHY"};
    const json_t *losses = json_object_get(answer, "losses");
    double clients = ctl_number(answer, "clients");
    double more = clients - (double)json_array_size(losses);
    struct ctl_table table;
    char text[CTL_WORD_MAX];
    const json_t *row;
    size_t i;

    if (clients == 0) {
        puts("No lock was lost, or all losses were acknowledged.");
        return;
    }
    ctl_table_init(&table, ctl, 4, TITLES);
    json_array_foreach(losses, i, row)
    {
        ctl_table_add(&table, ctl_text(row, "time"), CTL_PLAIN);
        hf_format(text, sizeof(text), "%.200s (%.60s)", ctl_text(row, "client"),
                  ctl_text(row, "address"));
        ctl_table_add(&table, text, CTL_BOLD);
        if (json_is_null(json_object_get(row, "locks")))
            hf_format(text, sizeof(text), "?");
        else
            hf_format(text, sizeof(text), "%.0f", ctl_number(row, "locks"));
        ctl_table_add(&table, text, CTL_RED);
        ctl_table_add(&table, explain(ctl_text(row, "reason")), CTL_PLAIN);
    }
    ctl_table_print(&table);
    if (more > 0)
        printf("and %.0f more clients, which the log names\n", more);
    ctl_history_lost(ctl, ctl_text(json_array_get(losses, 0), "time"));
    printf("%.0f locks of %.0f clients. The kernels of these clients do not tell their "
           "applications.\nWhen you have seen to them: holdfastctl losses ack\n",
           ctl_number(answer, "locks"), clients);
}

int ctl_losses(struct ctl *ctl, int argc, char **argv)
{
    bool ack = argc == 1 && strcmp(argv[0], "ack") == 0;
    json_t *answer;
    int rv;

    if (argc > 0 && !ack)
        return CTL_USAGE;
    rv = ctl_ask(ctl, ack ? "DELETE" : "GET", "losses", NULL, &answer);
    if (rv != CTL_OK)
        return rv;
    if (ctl->json)
        ctl_print_json(answer);
    else if (ack)
        printf("Acknowledged: %.0f locks of %.0f clients.\n", ctl_number(answer, "locks"),
               ctl_number(answer, "clients"));
    else
        print_losses(ctl, answer);
    json_decref(answer);
    return CTL_OK;
}
