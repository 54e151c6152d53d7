#include <curl/curl.h>
#include <getopt.h>
#include <locale.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/text.h"
#include "ctl/ctl.h"

#define DEFAULT_SOCKET "/run/holdfast/admin.sock"

enum { WATCH_S = 2 };

static const struct ctl_command COMMANDS[] = {
    {"status", "", "what is wrong, grace, counts and notifications at a glance", ctl_status, true,
     ""},
    {"top", "[FILTER]... [--sort COLUMN] [--once]",
     "a live view: files that are waited for, the longest waits, the busiest clients", ctl_top,
     false, "cfSI1On"},
    {"clients", "[FILTER]... [--sort COLUMN] [--limit N]",
     "all clients, and whether each was notified of the last restart", ctl_clients, true, "cIOTnC"},
    {"client", "dead CLIENT [--since TIME] [--yes]",
     "a client that certainly does not run any more loses its locks, as after its crash notice",
     ctl_client, false, "a"},
    {"locks", "[FILTER]... [--sort COLUMN] [--limit N]",
     "all locks and their holders; --file /PATH: of exactly this file", ctl_locks, true,
     "cfSoIHTOnC"},
    {"waiters", "[FILTER]... [--sort COLUMN] [--limit N] | --tree",
     "all waiting requests, and which client holds the lock; --tree: by file, to the root",
     ctl_waiters, true, "cfSoITOnCE"},
    {"reservations", "[FILTER]... [--sort COLUMN] [--limit N]",
     "share reservations (DOS open modes), and their holders", ctl_reservations, true, "cfSIOnC"},
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
    {"release", "--client WHICH [--owner WHICH] | --file WHICH | --lock ID [--dry-run] [--yes]",
     "release locks without the consent of their holders", ctl_release, false, "cflod"},
    {"notify", "[CLIENT]", "send the notice of the last restart again, and follow it", ctl_notify,
     false, ""},
    {"check", "CLIENT|HOST", "whether a host can be called back; if not, why, and what to do",
     ctl_check, false, ""},
    {"doctor", "[--server HOST:/DIRECTORY [--after-restart]]",
     "whether this host is set up well for the daemon; --server: whether an NFS server's file "
     "handles are fit for locks",
     ctl_doctor, false, "NR"},
    {"cluster", "[take|release|move]",
     "the nodes of a service with standbys; take or give up the service here, or move it away",
     ctl_cluster, true, ""},
    {"page", "[changes]",
     "an address that shows the live page with the files of locks; changes: and may release them",
     ctl_page, false, ""},
    {"backup", "FILE", "write all that is durable now to a file, for holdfastd --restore",
     ctl_backup, false, ""},
};

/* All options; those that all commands take come last. COMMANDS names an option by its letter. */
static const struct ctl_option {
    char letter;
    const char *name;
    const char *argument; /* NULL: the option takes no argument; "[=...]": it may take one */
    const char *help;
    /* The place of the value in struct ctl: a text, or a flag if the option takes no argument. */
    size_t at;
    bool common; /* all commands take this option */
} OPTIONS[] = {
#define TEXT(member) offsetof(struct ctl, member)
    {'c', "client", "WORD", "a client: its id, or a part of its name or address", TEXT(client)},
    {'f', "file", "WORD", "a file: /PATH, a part of its path or handle, or a pattern with * and ?",
     TEXT(file)},
    {'S', "share", "NAME", "files of this export", TEXT(export)},
    {'o', "owner", "WORD", "an owner: its number, or a part of its text", TEXT(owner)},
    {'I', "address", "NETWORK", "clients of this address or network, as 192.0.2.0/24",
     TEXT(address)},
    {'H', "held", "AGE", "locks that have been held for so long, as 90s, 10m, 2h, 1d", TEXT(held)},
    {'T', "waited", "[=AGE]",
     "locks, and clients, that wait or are waited for; requests that have "
     "waited for so long",
     TEXT(waited)},
    {'O', "sort", "COLUMN", "order by a column; -COLUMN: the largest first", TEXT(sort)},
    {'n', "limit", "N", "so many rows at most", TEXT(limit)},
    {'C', "csv", NULL, "comma-separated values, with a line of titles", TEXT(csv)},
    {'E', "tree", NULL, "by file: holders, their own waits, and the queue", TEXT(tree)},
    {'1', "once", NULL, "print once, also on a terminal", TEXT(once)},
    {'l', "lock", "ID", "one lock", TEXT(lock)},
    {'d', "dry-run", NULL, "only show what would be released", TEXT(dry_run)},
    {'A', "at", "TIME", "what was at this time: 03:12, 2026-11-18 03:12, 2h (ago), @SECONDS",
     TEXT(at)},
    {'a', "since", "TIME", "from this time on", TEXT(since)},
    {'b', "until", "TIME", "up to this time", TEXT(until)},
    {'N', "server", "HOST:/DIRECTORY", "an NFS server, and a directory to make a test file in",
     TEXT(server)},
    {'R', "after-restart", NULL, "and whether handles survive its restart", TEXT(after_restart)},
    {'s', "socket", "PATH", "the daemon's socket (" DEFAULT_SOCKET "; or HOLDFAST_SOCKET)",
     TEXT(socket), true},
    {'u', "url", "URL", "use TCP instead: http://127.0.0.1:8049", TEXT(url), true},
    {'t', "token-file", "FILE", "the token that changes over TCP need", TEXT(token_file), true},
    {'j', "json", NULL, "JSON instead of tables", TEXT(json), true},
    {'W', "wide", NULL, "whole texts, even where a table is wider than the terminal then",
     TEXT(wide), true},
    {'w', "watch", NULL, "repeat every two seconds, until Ctrl-C", TEXT(watch), true},
    {'y', "yes", NULL, "do not ask for confirmation", TEXT(yes), true},
    {'h', "help", NULL, "this help; of a command, if one is named", TEXT(help), true},
    {'V', "version", NULL, "the version of holdfastctl", TEXT(version), true},
#undef TEXT
};

static void print_option(FILE *out, const struct ctl_option *option)
{
    char left[40];

    hf_format(left, sizeof(left), "--%s%s%s", option->name,
              option->argument && option->argument[0] != '[' ? " " : "",
              option->argument ? option->argument : "");
    (void)fprintf(out, "  %-24s %s\n", left, option->help);
}

static void print_help(FILE *out)
{
    (void)fputs("usage: holdfastctl [OPTION]... COMMAND [ARGUMENT]...\n\n", out);
    for (size_t i = 0; i < HF_COUNT_OF(COMMANDS); i++)
        (void)fprintf(out, "  %-12s %s\n               %s\n", COMMANDS[i].name, COMMANDS[i].help,
                      COMMANDS[i].arguments);
    (void)fputs("\nholdfastctl COMMAND --help has the options of a command. Of all commands:\n\n",
                out);
    for (size_t i = 0; i < HF_COUNT_OF(OPTIONS); i++) {
        if (OPTIONS[i].common)
            print_option(out, &OPTIONS[i]);
    }
    (void)fputs(
        "\nExit status: 0 done, 1 refused, 2 wrong usage, 3 no daemon answers, 4 no such client,\n"
        "lock or file, 5 the client cannot be called back, 6 another node serves. See\n"
        "holdfastctl(8).\n",
        out);
}

static bool takes(const struct ctl_command *command, const struct ctl_option *option)
{
    return option->common || strchr(command->options, option->letter);
}

static void print_command_help(const struct ctl_command *command)
{
    bool any = false;

    printf("usage: holdfastctl %s %s\n\n%s\n", command->name, command->arguments, command->help);
    for (size_t i = 0; i < HF_COUNT_OF(OPTIONS); i++) {
        if (!OPTIONS[i].common && takes(command, &OPTIONS[i])) {
            if (!any)
                putchar('\n');
            any = true;
            print_option(stdout, &OPTIONS[i]);
        }
    }
    ctl_print_columns(command->name);
    puts("\nSee holdfastctl --help for the options of all commands, and holdfastctl(8).");
}

/* Reads the options, and notes which were given; the command and its arguments begin at optind. */
static void parse_options(struct ctl *ctl, int argc, char **argv, bool given[])
{
    struct option options[HF_COUNT_OF(OPTIONS) + 1] = {0};
    int found;
    int at = -1;

    for (size_t i = 0; i < HF_COUNT_OF(OPTIONS); i++) {
        const char *argument = OPTIONS[i].argument;

        options[i] = (struct option){.name = OPTIONS[i].name, .val = OPTIONS[i].letter};
        options[i].has_arg = !argument            ? no_argument
                             : argument[0] == '[' ? optional_argument
                                                  : required_argument;
    }
    while ((found = getopt_long(argc, argv, "hVjyw", options, &at)) != -1) {
        if (found == '?')
            exit(CTL_USAGE);
        for (size_t i = 0; i < HF_COUNT_OF(OPTIONS); i++) {
            char *place = (char *)ctl + OPTIONS[i].at;

            if (OPTIONS[i].letter != found)
                continue;
            given[i] = true;
            if (OPTIONS[i].argument)
                *(const char **)(void *)place = optarg ? optarg : "";
            else
                *(bool *)(void *)place = true;
        }
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
 * Refuses options that the command does not have: if "release --file X --owner Y" ignored the
 * owner, it would release the locks of other owners, too.
 */
static bool takes_all(const struct ctl *ctl, const struct ctl_command *command, const bool given[])
{
    for (size_t i = 0; i < HF_COUNT_OF(OPTIONS); i++) {
        if (!given[i] || takes(command, &OPTIONS[i]))
            continue;
        (void)fprintf(stderr, "holdfastctl: %s takes no --%s\n", command->name, OPTIONS[i].name);
        return false;
    }
    if (ctl->limit &&
        (ctl->limit[strspn(ctl->limit, "0123456789")] || strtoull(ctl->limit, NULL, 10) == 0)) {
        (void)fprintf(stderr, "holdfastctl: --limit takes a number above 0, not \"%s\"\n",
                      ctl->limit);
        return false;
    }
    if (ctl->json && ctl->csv) {
        (void)fputs("holdfastctl: --json and --csv exclude each other\n", stderr);
        return false;
    }
    return true;
}

static int run(struct ctl *ctl, const struct ctl_command *command, int argc, char **argv)
{
    int rv = command->run(ctl, argc, argv);

    while (ctl->watch && command->watchable && rv == CTL_OK) {
        (void)fflush(stdout);
        sleep(WATCH_S);
        if (!ctl->json)
            (void)fputs(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "\n", stdout);
        rv = command->run(ctl, argc, argv);
    }
    return rv;
}

/*
 * Answers "help COMMAND", "COMMAND --help" and "--help"; true if the command line was one of these.
 */
static bool helped(const struct ctl *ctl, int argc, char **argv)
{
    const char *word = argc > 0 && strcmp(argv[0], "help") == 0 ? argc > 1 ? argv[1] : "" : NULL;
    const struct ctl_command *command;

    if (!ctl->help && !word)
        return false;
    command = find(word ? word : argc > 0 ? argv[0] : "");
    if (command)
        print_command_help(command);
    else
        print_help(stdout);
    return true;
}

int main(int argc, char **argv)
{
    const char *environment = getenv("HOLDFAST_SOCKET");
    struct ctl ctl = {.socket = environment ? environment : DEFAULT_SOCKET};
    bool given[HF_COUNT_OF(OPTIONS)] = {false};
    const struct ctl_command *command;
    int rv;

    (void)setlocale(LC_CTYPE, "");
    ctl.color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    argv[0] = (char[]){"holdfastctl"}; /* getopt's messages begin like ours */
    parse_options(&ctl, argc, argv, given);
    if (ctl.version) {
        puts("holdfastctl " HF_VERSION);
        return CTL_OK;
    }
    if (helped(&ctl, argc - optind, argv + optind))
        return CTL_OK;
    command = optind < argc ? find(argv[optind]) : NULL;
    if (!command) {
        if (optind < argc)
            (void)fprintf(
                stderr, "holdfastctl: there is no command \"%s\"; holdfastctl --help lists them\n",
                argv[optind]);
        else
            print_help(stderr);
        return CTL_USAGE;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    rv = takes_all(&ctl, command, given) ? run(&ctl, command, argc - optind - 1, argv + optind + 1)
                                         : CTL_USAGE;
    curl_global_cleanup();
    if (rv == CTL_USAGE)
        (void)fprintf(stderr, "usage: holdfastctl %s %s\n", command->name, command->arguments);
    return rv;
}
