#include <curl/curl.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "ctl/ctl.h"

#define DEFAULT_SOCKET "/run/holdfast/admin.sock"

enum { WATCH_S = 2 };

static const struct ctl_command COMMANDS[] = {
    {"status", "", "what is wrong, grace, counts and notifications at a glance", ctl_status, true,
     ""},
    {"clients", "[--client WORD] [--limit N]",
     "all clients, and whether each was notified of the last restart", ctl_clients, true, "cn"},
    {"locks", "[--client|--file|--share|--owner WORD] [--limit N]",
     "all locks and their holders; --file /PATH: of exactly this file", ctl_locks, true, "cfSon"},
    {"waiters", "[--client|--file|--share|--owner WORD] [--limit N]",
     "all waiting requests, and which client holds the lock", ctl_waiters, true, "cfSon"},
    {"why", "CLIENT|FILE|PATH [--limit N]",
     "what a waiting client, or the waiters for a file, wait for, down to the root", ctl_why, true,
     "n"},
    {"exports", "[release PATH | take-back PATH]",
     "what the kernel holds open for clients, by export; let a directory go to unmount it",
     ctl_exports, false, ""},
    {"grace", "[end | hold SECONDS]",
     "follow the grace period, end it now, or hold new locks back for a neighbour's", ctl_grace,
     false, ""},
    {"losses", "[ack]", "clients that lost locks after a restart; ack: you have seen to them",
     ctl_losses, true, ""},
    {"history", "[--at|--since|--until TIME] [--client|--file WORD] [--limit N]",
     "which client held or waited for which file, and when; --at 03:12: at that moment",
     ctl_history, false, "cfnAab"},
    {"release", "--client|--file|--lock WHICH [--yes]",
     "release locks without the consent of their holders", ctl_release, false, "cfl"},
    {"notify", "[CLIENT]", "send the notice of the last restart again, and follow it", ctl_notify,
     false, ""},
    {"check", "CLIENT|HOST", "whether a host can be called back; if not, why, and what to do",
     ctl_check, false, ""},
    {"doctor", "[--server HOST:/DIRECTORY [--after-restart]]",
     "whether this host is set up well for the daemon; --server: whether an NFS server's file "
     "handles are fit for locks",
     ctl_doctor, false, "N"},
    {"cluster", "[take|release|move]",
     "the nodes of a service with standbys; take or give up the service here, or move it away",
     ctl_cluster, true, ""},
    {"page", "[changes]",
     "an address that shows the live page with the files of locks; changes: and may release them",
     ctl_page, false, ""},
    {"backup", "FILE", "write all that is durable now to a file, for holdfastd --restore",
     ctl_backup, false, ""},
};

static const struct option OPTIONS[] = {
    {"socket", required_argument, NULL, 's'},
    {"url", required_argument, NULL, 'u'},
    {"token-file", required_argument, NULL, 't'},
    {"json", no_argument, NULL, 'j'},
    {"wide", no_argument, NULL, 'W'},
    {"yes", no_argument, NULL, 'y'},
    {"watch", no_argument, NULL, 'w'},
    {"client", required_argument, NULL, 'c'},
    {"file", required_argument, NULL, 'f'},
    {"share", required_argument, NULL, 'S'},
    {"owner", required_argument, NULL, 'o'},
    {"lock", required_argument, NULL, 'l'},
    {"limit", required_argument, NULL, 'n'},
    {"at", required_argument, NULL, 'A'},
    {"since", required_argument, NULL, 'a'},
    {"until", required_argument, NULL, 'b'},
    {"server", required_argument, NULL, 'N'},
    {"after-restart", no_argument, NULL, 'R'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {0},
};

static void print_help(FILE *out)
{
    (void)fputs("usage: holdfastctl [OPTION]... COMMAND [ARGUMENT]...\n\n", out);
    for (size_t i = 0; i < HF_COUNT_OF(COMMANDS); i++)
        (void)fprintf(out, "  %-8s %s\n           %s\n", COMMANDS[i].name, COMMANDS[i].help,
                      COMMANDS[i].arguments);
    (void)fputs(
        "\n"
        "  --socket PATH      the daemon's socket (" DEFAULT_SOCKET "; or HOLDFAST_SOCKET)\n"
        "  --url URL          use TCP instead: http://127.0.0.1:8049\n"
        "  --token-file FILE  the token that changes over TCP need\n"
        "  --json             JSON instead of tables\n"
        "  --wide             whole texts, even where a table is wider than the terminal then\n"
        "  --watch            repeat every two seconds, until Ctrl-C\n"
        "  --yes              release and grace end: do not ask for confirmation\n"
        "\nExit status: 0 done, 1 refused, 2 wrong usage, 3 no daemon answers, 4 no such client,\n"
        "lock or file, 5 the client cannot be called back, 6 another node serves. See\n"
        "holdfastctl(8).\n",
        out);
}

static const char **text_option(struct ctl *ctl, int option)
{
    switch (option) {
    case 's':
        return &ctl->socket;
    case 'u':
        return &ctl->url;
    case 't':
        return &ctl->token_file;
    case 'c':
        return &ctl->client;
    case 'f':
        return &ctl->file;
    case 'S':
        return &ctl->export;
    case 'o':
        return &ctl->owner;
    case 'l':
        return &ctl->lock;
    case 'n':
        return &ctl->limit;
    case 'A':
        return &ctl->at;
    case 'a':
        return &ctl->since;
    case 'b':
        return &ctl->until;
    case 'N':
        return &ctl->server;
    default:
        return NULL;
    }
}

/* Reads the options; the command and its arguments begin at optind. */
static void parse_options(struct ctl *ctl, int argc, char **argv)
{
    int option;

    while ((option = getopt_long(argc, argv, "hVjyw", OPTIONS, NULL)) != -1) {
        const char **text = text_option(ctl, option);

        if (text) {
            *text = optarg;
        } else if (option == 'h') {
            print_help(stdout);
            exit(CTL_OK);
        } else if (option == 'V') {
            puts("holdfastctl " HF_VERSION);
            exit(CTL_OK);
        } else if (option == '?') {
            exit(CTL_USAGE);
        }
        ctl->json |= option == 'j';
        ctl->wide |= option == 'W';
        ctl->yes |= option == 'y';
        ctl->watch |= option == 'w';
        ctl->after_restart |= option == 'R';
    }
}

static const struct ctl_command *find(const char *name)
{
    for (size_t i = 0; i < HF_COUNT_OF(COMMANDS); i++) {
        if (strcmp(COMMANDS[i].name, name) == 0)
            return &COMMANDS[i];
    }
    return NULL;
}

/*
 * Refuses filters that the command does not have: if "release --client X --owner Y" ignored the
 * owner, it would release the locks of other owners, too.
 */
static bool takes_filters(struct ctl *ctl, const struct ctl_command *command)
{
    for (const struct option *option = OPTIONS; option->name; option++) {
        const char **text =
            strchr("cfSolnNAab", option->val) ? text_option(ctl, option->val) : NULL;

        if (!text || !*text || strchr(command->filters, option->val))
            continue;
        (void)fprintf(stderr, "holdfastctl: %s takes no --%s\n", command->name, option->name);
        return false;
    }
    if (ctl->limit && (!*ctl->limit || ctl->limit[strspn(ctl->limit, "0123456789")])) {
        (void)fprintf(stderr, "holdfastctl: --limit takes a number, not \"%s\"\n", ctl->limit);
        return false;
    }
    return true;
}

static int run(struct ctl *ctl, const struct ctl_command *command, int argc, char **argv)
{
    int rv = takes_filters(ctl, command) ? command->run(ctl, argc, argv) : CTL_USAGE;

    while (ctl->watch && command->watchable && rv == CTL_OK) {
        (void)fflush(stdout);
        sleep(WATCH_S);
        if (!ctl->json)
            (void)fputs(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "\n", stdout);
        rv = command->run(ctl, argc, argv);
    }
    return rv;
}

int main(int argc, char **argv)
{
    const char *environment = getenv("HOLDFAST_SOCKET");
    struct ctl ctl = {.socket = environment ? environment : DEFAULT_SOCKET};
    const struct ctl_command *command;
    int rv;

    (void)setlocale(LC_CTYPE, "");
    ctl.color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    parse_options(&ctl, argc, argv);
    command = optind < argc ? find(argv[optind]) : NULL;
    if (!command) {
        if (optind < argc)
            (void)fprintf(stderr, "holdfastctl: there is no command \"%s\"\n\n", argv[optind]);
        print_help(stderr);
        return CTL_USAGE;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    rv = run(&ctl, command, argc - optind - 1, argv + optind + 1);
    curl_global_cleanup();
    if (rv == CTL_USAGE)
        (void)fprintf(stderr, "usage: holdfastctl %s %s\n", command->name, command->arguments);
    return rv;
}
