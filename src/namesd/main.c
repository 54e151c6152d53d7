/* holdfast-namesd tells which path a file handle has. See holdfast-namesd(8) and
 * docs/operating/NAMES.md. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/text.h"
#include "namesd/confine.h"
#include "namesd/server.h"
#include "namesd/settings.h"

enum { EXIT_USAGE = 2 };

static const struct option OPTIONS[] = {
    {"config", required_argument, NULL, 'c'},    {"export", required_argument, NULL, 'e'},
    {"socket", required_argument, NULL, 's'},    {"search", required_argument, NULL, 'n'},
    {"log-level", required_argument, NULL, 'l'}, {"resolve", required_argument, NULL, 'r'},
    {"check-config", no_argument, NULL, 'C'},    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},         {0},
};

static const char HELP[] =
    "usage: holdfast-namesd [OPTION]...\n\n"
    "Turns file handles of NFSv3 into paths, for holdfastd (names.socket).\n\n"
    "  --config FILE     instead of " HF_NAMES_CONFIG "; \"\" for none\n"
    "  --export DIR      a directory whose files may be named; again for each\n"
    "  --socket PATH     where to be asked (" HF_NAMES_SOCKET ")\n"
    "  --search N        directory entries that a search may look at; 0: no search\n"
    "  --log-level NAME  error, warn, info or debug\n"
    "  --resolve HEX     print the path of one handle, and exit\n"
    "  --check-config    check the configuration, and exit\n";

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

struct command {
    const char *config;
    const char *resolve;
    bool check;
};

static int fail(const char *reason)
{
    (void)fprintf(stderr, "holdfast-namesd: %s\n", reason);
    return EXIT_USAGE;
}

/* Reads the command line. Returns 0, or the status to exit with. Files come first, so that options
 * have the last word. */
static int parse(struct hf_namesd_settings *settings, struct command *command, int argc,
                 char **argv)
{
    static const char *const KEYS[] = {
        ['e'] = "export", ['s'] = "socket", ['n'] = "search", ['l'] = "log_level"};
    char error[HF_NAMESD_SETTINGS_ERROR_MAX] = "";
    int option;
    int rv;

    while ((option = getopt_long(argc, argv, "hV", OPTIONS, NULL)) != -1) {
        if (option == '?')
            return EXIT_USAGE;
        if (option == 'c')
            command->config = optarg;
    }
    if (!command->config || command->config[0]) {
        const char *file = command->config ? command->config : HF_NAMES_CONFIG;

        rv = hf_namesd_settings_read(settings, file, error);
        if (rv < 0 && (rv != HF_ENOENT || command->config))
            return fail(error);
    }
    optind = 1;
    while ((option = getopt_long(argc, argv, "hV", OPTIONS, NULL)) != -1) {
        if (option == 'r')
            command->resolve = optarg;
        else if (option == 'C')
            command->check = true;
        else if (option != 'c' && option != 'h' && option != 'V' &&
                 hf_namesd_settings_set(settings, KEYS[option], optarg, error) < 0)
            return fail(error);
    }
    if (optind < argc)
        return fail("takes options only; see --help");
    if (settings->exports->n_configured == 0)
        return fail("no exports: name them in " HF_NAMES_CONFIG " (export=DIR) or by --export");
    return 0;
}

static int64_t now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Answers one question from the command line, for which a search may take all the time it needs. */
static int resolve_once(struct hf_resolver *resolver, const char *hex)
{
    static const char *const WORDS[] = {"", "deleted", "unknown", "unknown"};
    char quoted[HF_PATH_QUOTED_MAX];
    char path[HF_PATH_BYTES_MAX];
    uint8_t handle[HF_HANDLE_BYTES_MAX];
    int len = hf_hex_decode(hex, strlen(hex), handle, sizeof(handle));
    enum hf_answer answer;
    bool searching = true;

    if (len <= 0)
        return fail("--resolve takes a handle in hexadecimal, of at most 64 bytes");
    if (hf_namesd_confine() < 0)
        return EXIT_FAILURE;
    answer = hf_resolve(resolver, now(), hf_bytes(handle, (size_t)len), path);
    while (answer == HF_ANSWER_LATER && searching) {
        searching = hf_walk_step(&resolver->walk, now()) >= 0;
        (void)poll(NULL, 0, 1);
        answer = hf_resolve(resolver, now(), hf_bytes(handle, (size_t)len), path);
    }
    if (answer == HF_ANSWER_NAMED && hf_path_quote(hf_bytes_str(path), quoted, sizeof(quoted)) > 0)
        puts(quoted);
    else
        (void)fprintf(stderr, "holdfast-namesd: %s\n", WORDS[answer]);
    return answer == HF_ANSWER_NAMED ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Counts the exports that are directories and exist; the log names the others. */
static size_t count_exports(const struct hf_exports *exports)
{
    size_t there = 0;

    for (size_t i = 0; i < exports->n_configured; i++) {
        const char *path = exports->configured[i];
        struct stat st;
        const char *reason = NULL;

        if (stat(path, &st) < 0)
            reason = strerror(errno);
        else if (!S_ISDIR(st.st_mode))
            reason = "no directory";
        if (reason)
            hf_log(HF_LOG_WARN, "an export is not there", HF_STR("export", path),
                   HF_STR("reason", reason),
                   HF_STR("advice", "its files have no names until it is mounted or made"));
        else
            there++;
    }
    return there;
}

static int serve(struct hf_namesd_settings *settings, struct hf_resolver *resolver)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct hf_namesd_server server;
    size_t there = count_exports(settings->exports);
    int rv = hf_namesd_server_open(&server, resolver, settings->socket);

    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot listen", HF_STR("socket", settings->socket),
               HF_STR("reason", rv == HF_EBUSY ? hf_strerror(rv) : strerror(errno)));
        return EXIT_FAILURE;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    if (hf_namesd_confine() < 0) {
        hf_namesd_server_close(&server);
        return EXIT_FAILURE;
    }
    hf_log(HF_LOG_INFO, "ready", HF_STR("version", HF_VERSION), HF_STR("socket", settings->socket),
           HF_UINT("exports", there), HF_UINT("missing", settings->exports->n_configured - there));
    hf_namesd_server_run(&server, &stopping);
    hf_namesd_server_close(&server);
    hf_log(HF_LOG_INFO, "stopped");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct hf_resolver resolver;
    struct hf_namesd_settings settings;
    struct command command = {0};
    int status;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            (void)fputs(HELP, stdout);
            return EXIT_SUCCESS;
        }
        if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0) {
            puts("holdfast-namesd " HF_VERSION);
            return EXIT_SUCCESS;
        }
    }
    if (hf_resolver_init(&resolver, 0) < 0)
        return EXIT_FAILURE;
    hf_namesd_settings_init(&settings, &resolver.exports);
    status = parse(&settings, &command, argc, argv);
    if (status == 0) {
        resolver.walk.max = settings.search;
        hf_log_configure(settings.log_level, HF_LOG_TEXT);
        if (command.resolve)
            status = resolve_once(&resolver, command.resolve);
        else if (command.check)
            status = count_exports(settings.exports) == settings.exports->n_configured
                         ? EXIT_SUCCESS
                         : EXIT_FAILURE;
        else
            status = serve(&settings, &resolver);
    }
    hf_resolver_free(&resolver);
    return status;
}
