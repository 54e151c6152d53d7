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
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hex.h"
#include "namesd/confine.h"
#include "namesd/server.h"
#include "namesd/settings.h"

enum { EXIT_USAGE = 2 };

static const struct option OPTIONS[] = {
    {"config", required_argument, NULL, 'c'},  {"export", required_argument, NULL, 0},
    {"socket", required_argument, NULL, 0},    {"search", required_argument, NULL, 0},
    {"log-level", required_argument, NULL, 0}, {"resolve", required_argument, NULL, 'r'},
    {"check-config", no_argument, NULL, 'C'},  {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},       {0},
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
    const char *resolve;
    bool check;
};

static void note_option(void *ctx, int option)
{
    struct command *command = ctx;

    if (option == 'r')
        command->resolve = optarg;
    command->check |= option == 'C';
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

    if (len <= 0) {
        (void)fputs(
            "holdfast-namesd: --resolve takes a handle in hexadecimal, of at most 64 bytes\n",
            stderr);
        return EXIT_USAGE;
    }
    if (hf_namesd_confine() < 0)
        return EXIT_FAILURE;
    answer = hf_resolve(resolver, (int64_t)hf_clock_mono_ms(), hf_bytes(handle, (size_t)len), path);
    while (answer == HF_ANSWER_LATER && searching) {
        searching = hf_walk_step(&resolver->walk, (int64_t)hf_clock_mono_ms()) >= 0;
        (void)poll(NULL, 0, 1);
        answer =
            hf_resolve(resolver, (int64_t)hf_clock_mono_ms(), hf_bytes(handle, (size_t)len), path);
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
    size_t there = count_exports(&resolver->exports);
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
           HF_UINT("exports", there), HF_UINT("missing", resolver->exports.n_configured - there));
    hf_namesd_server_run(&server, &stopping);
    hf_namesd_server_close(&server);
    hf_log(HF_LOG_INFO, "stopped");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct hf_resolver resolver;
    struct hf_namesd_settings settings;
    struct hf_settings keys;
    struct command command = {0};
    int status;

    if (hf_resolver_init(&resolver, 0) < 0)
        return EXIT_FAILURE;
    keys = hf_namesd_settings_init(&settings, &resolver.exports);
    keys.options = OPTIONS;
    keys.help = HELP;
    status = hf_settings_parse(&keys, argc, argv, note_option, &command);
    if (status < 0) {
        resolver.walk.max = settings.search;
        hf_log_configure(settings.log_level, HF_LOG_TEXT);
        if (command.resolve)
            status = resolve_once(&resolver, command.resolve);
        else if (command.check)
            status = count_exports(&resolver.exports) == resolver.exports.n_configured
                         ? EXIT_SUCCESS
                         : EXIT_FAILURE;
        else
            status = serve(&settings, &resolver);
    }
    hf_resolver_free(&resolver);
    return status;
}
