/* `holdfastctl cluster` shows the nodes of a service with standbys, and which of them has the
 * lease. take, release and move change that; keepalived and Pacemaker call take and release. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/text.h"
#include "ctl/ctl.h"

enum {
    WAIT_MS = 10000, /* how long to wait for the outcome of a command */
    LOOK_MS = 20,
    MS = 1000000, /* how many nanoseconds a millisecond has */
};

static const char *const WORDS[] = {"take", "release", "move"};

static enum ctl_color color_of(const char *role)
{
    if (strcmp(role, "active") == 0)
        return CTL_GREEN;
    return strcmp(role, "standby") == 0 ? CTL_PLAIN : CTL_YELLOW;
}

static void add_node(struct ctl_table *table, const json_t *node)
{
    bool owner = json_is_true(json_object_get(node, "owner"));
    const char *role = ctl_text(node, "role");
    char age[CTL_WORD_MAX];

    /* Other nodes tell only that they are there; the lease tells which of them serves. */
    if (!role[0])
        role = owner ? "owner" : "standby";
    ctl_table_add(table, ctl_text(node, "name"), owner ? CTL_BOLD : CTL_PLAIN);
    ctl_table_add(table, role, color_of(role));
    ctl_table_add(table, ctl_word_age(ctl_number(node, "seen_seconds_ago"), age), CTL_PLAIN);
    ctl_table_add(table, ctl_text(node, "version"), CTL_PLAIN);
}

static void print(struct ctl *ctl, const json_t *c)
{
    static const char *const TITLES[] = {"NODE", "ROLE", "SEEN", "VERSION"};
    struct ctl_table table;
    json_t *node;
    size_t i;

    printf("service %s, this node %s: ", ctl_text(c, "service"), ctl_text(c, "node"));
    ctl_paint(ctl, color_of(ctl_text(c, "role")), ctl_text(c, "role"));
    (void)fputs("\n", stdout);
    if (ctl_text(c, "owner")[0])
        printf("taken by %s at %s\n", ctl_text(c, "owner"), ctl_text(c, "taken"));
    if (!json_is_null(json_object_get(c, "lease")))
        printf("lease %s, valid for another %.0f ms\n", ctl_text(c, "lease"),
               ctl_number(c, "lease_left_seconds") * 1000);
    if (ctl_number(c, "takeovers") > 0)
        printf("last takeover here: %.0f ms, after %.0f ms without a sign of the last owner\n",
               ctl_number(c, "last_takeover_seconds") * 1000,
               ctl_number(c, "last_silence_seconds") * 1000);
    ctl_table_init(&table, ctl, HF_COUNT_OF(TITLES), TITLES);
    json_array_foreach(json_object_get(c, "nodes"), i, node) add_node(&table, node);
    ctl_table_print(&table);
}

static int show(struct ctl *ctl)
{
    json_t *cluster;
    int rv = ctl_ask(ctl, "GET", "cluster", NULL, &cluster);

    if (rv != CTL_OK)
        return rv;
    if (ctl->json)
        ctl_print_json(cluster);
    else
        print(ctl, cluster);
    json_decref(cluster);
    return CTL_OK;
}

/* True if the node has reached the state that the command wants. */
static bool has_come(const json_t *cluster, bool take)
{
    const char *role = ctl_text(cluster, "role");

    if (take)
        return strcmp(role, "active") == 0;
    return strcmp(role, "standby") == 0 || strcmp(role, "held") == 0;
}

/* Waits until the command that the node has begun to carry out has come to an end. */
static int follow(struct ctl *ctl, const char *word)
{
    const struct timespec pause = {0, (long)LOOK_MS * MS};
    bool take = strcmp(word, "take") == 0;
    json_t *cluster = NULL;

    for (int waited = 0; waited < WAIT_MS; waited += LOOK_MS) {
        int rv = ctl_ask(ctl, "GET", "cluster", NULL, &cluster);

        if (rv != CTL_OK)
            return rv;
        if (has_come(cluster, take)) {
            if (ctl->json)
                ctl_print_json(cluster);
            else
                printf("%s is %s\n", ctl_text(cluster, "node"), ctl_text(cluster, "role"));
            json_decref(cluster);
            return CTL_OK;
        }
        json_decref(cluster);
        nanosleep(&pause, NULL);
    }
    (void)fprintf(stderr, "holdfastctl: begun, but not done after %d s; see holdfastctl cluster\n",
                  WAIT_MS / 1000);
    return CTL_REFUSED;
}

int ctl_cluster(struct ctl *ctl, int argc, char **argv)
{
    char path[32];
    json_t *answer;
    int rv;

    if (argc == 0)
        return show(ctl);
    for (size_t i = 0; i < HF_COUNT_OF(WORDS) && argc == 1; i++) {
        if (strcmp(argv[0], WORDS[i]) != 0)
            continue;
        hf_format(path, sizeof(path), "cluster/%s", WORDS[i]);
        rv = ctl_ask(ctl, "POST", path, NULL, &answer);
        if (rv != CTL_OK)
            return rv;
        json_decref(answer);
        return follow(ctl, WORDS[i]);
    }
    return CTL_USAGE;
}
