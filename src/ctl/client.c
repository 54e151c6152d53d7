/*
 * `holdfastctl client dead`: a host that certainly does not run any more (fenced, its node given
 * up) loses what it has, as after its own crash notice. A host that uses several of our addresses,
 * or has several itself, is several clients of one name, and all of them lose what they have.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "ctl/confirm.h"
#include "ctl/ctl.h"

/* True if a word is the short form of a client's name: a cluster may call a node node-1, and its
 * NFS client may be node-1.example. */
static bool is_short_for(const char *word, const char *name)
{
    size_t len = strlen(word);

    return !strchr(word, '.') && strncasecmp(word, name, len) == 0 && name[len] == '.';
}

static bool locks(const json_t *client)
{
    return strcmp(ctl_text(client, "protocol"), "nlm") == 0;
}

/* Finds the clients of a host, as an array. Clients with different names are different hosts: then
 * this returns CTL_NOT_FOUND. */
static int find_host(struct ctl *ctl, const char *word, json_t **out)
{
    struct ctl only = *ctl;
    json_t *clients, *client;
    const char *name = "";
    bool ambiguous = false;
    size_t i;
    int rv;

    only.client = word;
    only.since = NULL;
    rv = ctl_ask_list(&only, "clients", &clients);
    if (rv != CTL_OK)
        return rv;
    *out = json_array();
    json_array_foreach(clients, i, client)
    {
        if (!locks(client) ||
            (!ctl_is_named(client, word) && !is_short_for(word, ctl_text(client, "name"))))
            continue;
        ambiguous |= name[0] && strcasecmp(name, ctl_text(client, "name")) != 0;
        json_array_append(*out, client);
        name = ctl_text(json_array_get(*out, 0), "name");
    }
    json_decref(clients);
    if (!ambiguous && json_array_size(*out) > 0)
        return CTL_OK;
    (void)fprintf(stderr,
                  ambiguous
                      ? "holdfastctl: \"%s\" names more than one host: give the whole name, or "
                        "the id (see holdfastctl clients)\n"
                      : "holdfastctl: no client is called \"%s\" (see holdfastctl clients)\n",
                  word);
    json_decref(*out);
    return CTL_NOT_FOUND;
}

static bool confirm(struct ctl *ctl, const json_t *clients)
{
    const json_t *first = json_array_get(clients, 0);
    char question[CTL_WORD_MAX + 160];
    double held = 0;
    const json_t *client;
    size_t i;

    json_array_foreach((json_t *)clients, i, client) held += ctl_number(client, "locks");
    hf_format(question, sizeof(question),
              "Declare %.200s dead, and release its %.0f locks? It is not notified: if it still "
              "runs, it goes on writing.",
              ctl_text(first, "name"), held);
    return ctl_confirm(ctl, question);
}

static int declare(struct ctl *ctl, const json_t *clients, const char *since)
{
    json_t *sum = NULL, *answer;
    char path[CTL_PATH_MAX];
    char body[CTL_TIME_MAX + 16];
    const json_t *client;
    size_t i;
    int rv = CTL_OK;

    hf_format(body, sizeof(body), "{\"since\": \"%s\"}", since);
    json_array_foreach((json_t *)clients, i, client)
    {
        hf_format(path, sizeof(path), "clients/%s/dead", ctl_text(client, "id"));
        rv = ctl_ask(ctl, "POST", path, since[0] ? body : "", &answer);
        if (rv != CTL_OK)
            break;
        ctl_add_released(&sum, answer);
    }
    if (sum)
        ctl_print_released(ctl, sum);
    json_decref(sum);
    return rv;
}

int ctl_client(struct ctl *ctl, int argc, char **argv)
{
    char since[CTL_TIME_MAX];
    json_t *clients;
    int rv;

    if (argc != 2 || strcmp(argv[0], "dead") != 0 || !ctl_read_time("since", ctl->since, since))
        return CTL_USAGE;
    rv = find_host(ctl, argv[1], &clients);
    if (rv != CTL_OK)
        return rv;
    rv = confirm(ctl, clients) ? declare(ctl, clients, since) : CTL_REFUSED;
    json_decref(clients);
    return rv;
}
