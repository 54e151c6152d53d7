#include <netdb.h>
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
        printf("                advice: %s\n", advice);
}

static int report(struct ctl *ctl, const json_t *answer)
{
    bool reachable = json_is_true(json_object_get(answer, "reachable"));
    bool finds_us = json_is_true(json_object_get(answer, "finds_us"));
    json_t *step;
    size_t i;

    if (ctl->json) {
        ctl_print_json(answer);
        return reachable && finds_us ? CTL_OK : CTL_TROUBLE;
    }
    json_array_foreach(json_object_get(answer, "steps"), i, step) print_step(ctl, step);
    ctl_paint(ctl, reachable ? CTL_GREEN : CTL_RED,
              reachable ? "This host can be called back." : "This host cannot be called back.");
    if (!finds_us)
        ctl_paint(ctl, CTL_RED, " It does not find us: its requests for locks hang.");
    putchar('\n');
    return reachable && finds_us ? CTL_OK : CTL_TROUBLE;
}

/* Finds the first address of a host. Returns CTL_NOT_FOUND, and says so, if the name cannot be
 * resolved. */
static int resolve(const char *word, char address[NI_MAXHOST])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int error = getaddrinfo(word, NULL, &hints, &found);

    if (error == 0) {
        error = getnameinfo(found->ai_addr, found->ai_addrlen, address, NI_MAXHOST, NULL, 0,
                            NI_NUMERICHOST);
        freeaddrinfo(found);
    }
    if (error == 0)
        return CTL_OK;
    (void)fprintf(
        stderr,
        "holdfastctl: \"%s\" is neither a client (see holdfastctl clients), nor an address, "
        "nor a name with one: %s\n",
        word, gai_strerror(error));
    return CTL_NOT_FOUND;
}

/* Chooses what the daemon checks. A client that is known is checked from the address that it uses
 * for this server; any other host is checked by its own address. */
static int choose(struct ctl *ctl, const char *word, char path[64], char body[NI_MAXHOST + 32])
{
    char address[NI_MAXHOST];
    size_t matches;
    char id[32];
    int rv = ctl_match_clients(ctl, word, id, &matches);

    body[0] = '\0';
    if (rv == CTL_OK && matches == 0) {
        rv = resolve(word, address);
        if (rv == CTL_OK)
            rv = ctl_match_clients(ctl, address, id, &matches);
        if (rv == CTL_OK && matches != 1) {
            hf_format(path, 64, "check");
            hf_format(body, NI_MAXHOST + 32, "{\"address\": \"%s\"}", address);
            return CTL_OK;
        }
    } else if (rv == CTL_OK && matches > 1) {
        /* If several clients match, ctl_find_client() prints that an id is needed. */
        rv = ctl_find_client(ctl, word, id);
    }
    if (rv == CTL_OK)
        hf_format(path, 64, "clients/%s/check", id);
    return rv;
}

int ctl_check(struct ctl *ctl, int argc, char **argv)
{
    char body[NI_MAXHOST + 32];
    char path[64];
    json_t *answer;
    int rv;

    if (argc != 1)
        return CTL_USAGE;
    rv = choose(ctl, argv[0], path, body);
    if (rv == CTL_OK)
        rv = ctl_ask(ctl, "POST", path, body, &answer);
    if (rv != CTL_OK)
        return rv;
    rv = report(ctl, answer);
    json_decref(answer);
    return rv;
}
