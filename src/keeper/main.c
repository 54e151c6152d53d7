/* holdfast-keeper: holds locks of the kernel for holdfastd. See holdfast-keeper(8). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/socket.h"
#include "keeper/confine.h"
#include "keeper/guard.h"
#include "keeper/server.h"
#include "keeper/settings.h"
#include "keeper/store.h"

enum { EXIT_USAGE = 2, SPARE_FILES = 64 };

#ifdef HF_INSTRUMENTED
static const bool INSTRUMENTED = true;
#else
static const bool INSTRUMENTED = false;
#endif

static const struct option OPTIONS[] = {
    {"config", required_argument, NULL, 'c'},
    {"export", required_argument, NULL, 0},
    {"socket", required_argument, NULL, 0},
    {"user", required_argument, NULL, 0},
    {"set", required_argument, NULL, 'S'},
    {"check-config", no_argument, NULL, 'C'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {0},
};

static const char HELP[] =
    "usage: holdfast-keeper [OPTION]...\n\n"
    "Holds locks of the kernel for holdfastd (keeper.socket), so that NFSv4, SMB and local\n"
    "programs meet the locks of NFSv3 clients.\n\n"
    "  --config FILE     instead of " HF_KEEPER_CONFIG "; \"\" for none\n"
    "  --export DIR      a directory whose files may be locked; again for each\n"
    "  --socket PATH     where the daemon connects (" HF_KEEPER_SOCKET ")\n"
    "  --user NAME       the daemon's user (holdfast)\n"
    "  --set KEY=VALUE   any key of the configuration\n"
    "  --check-config    check the configuration, and exit\n";

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
    hf_guard_end_worker();
}

static void note_option(void *ctx, int option)
{
    *(bool *)ctx |= option == 'C'; /* --check-config */
}

/* Limits the number of files by what the process may open: each locked file is an open file. */
static void limit_files(struct hf_keeper_settings *settings)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || settings->files + SPARE_FILES <= limit.rlim_cur)
        return;
    settings->files = limit.rlim_cur > SPARE_FILES ? limit.rlim_cur - SPARE_FILES : 1;
    hf_log(HF_LOG_WARN, "fewer files than configured", HF_UINT("files", settings->files),
           HF_STR("advice", "raise LimitNOFILE of the unit"));
}

static int explain_privileges(int rv)
{
    if (rv == HF_EUNAVAIL)
        hf_log(HF_LOG_ERROR, "cannot open file handles",
               HF_STR("reason", "the capability CAP_DAC_READ_SEARCH is missing"),
               HF_STR("advice", "start the unit holdfast-keeper.service, or start it as root"));
    else if (rv < 0)
        hf_log(HF_LOG_ERROR, "cannot give up privileges", HF_STR("reason", hf_strerror(rv)));
    return rv;
}

/* Starts the threads before it loads the filter, which also holds for threads that run. */
static int confine_and_start(struct hf_keeper *keeper, const struct hf_keeper_limits *limits,
                             bool files_confined)
{
    FILE *mounts = hf_exports_mounts(&keeper->files.resolver.exports);
    int calls;
    int rv;

    if (INSTRUMENTED)
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    (void)hf_log_start();
    rv = hf_keeper_start(keeper, limits);
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot start threads", HF_STR("reason", hf_strerror(rv)));
        return rv;
    }
    calls = mounts ? hf_keeper_confine_calls(fileno(mounts), INSTRUMENTED) : HF_EUNAVAIL;
    hf_log(!files_confined || calls < 0 ? HF_LOG_WARN : HF_LOG_INFO, "confined",
           HF_STR("files", files_confined ? "none made, removed or truncated" : "not by Landlock"),
           HF_STR("system_calls", calls < 0 ? "all" : "own"));
    return 0;
}

static int work(struct hf_keeper *keeper, const struct hf_keeper_settings *settings, int listener,
                uid_t user, bool files_confined)
{
    static struct hf_keeper_server server;
    struct hf_keeper_limits limits = {.files = settings->files,
                                      .waits = settings->waits,
                                      .threads = settings->threads,
                                      .ranges = (uint32_t)settings->ranges};
    size_t kept = hf_store_adopt(&keeper->files, (int64_t)hf_clock_mono_ms());
    sigset_t ends;

    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);

    if (hf_keeper_server_open(&server, keeper, &limits, listener, user) < 0 ||
        confine_and_start(keeper, &limits, files_confined) < 0)
        return EXIT_FAILURE;
    hf_log(HF_LOG_INFO, "ready", HF_STR("version", HF_VERSION), HF_STR("socket", settings->socket),
           HF_UINT("files_kept", kept), HF_UINT("ranges_kept", keeper->files.n_spans));
    hf_guard_ready();
    (void)sd_notify(0, "READY=1");
    hf_keeper_server_run(&server, &stopping);
    hf_keeper_server_close(&server);
    hf_store_keep_all(&keeper->files);
    hf_log(HF_LOG_INFO, "stopped");
    hf_log_stop();
    hf_keeper_free(keeper);
    return EXIT_SUCCESS;
}

/* The guard opens what every worker needs, and gives up what none needs. */
static int serve(struct hf_keeper *keeper, const struct hf_keeper_settings *settings, uid_t user)
{
    struct sigaction action = {.sa_handler = on_signal};
    bool files_confined;
    FILE *mounts;
    int listener;
    int status;

    if (hf_guard_open(settings->files + 2 * settings->store + SPARE_FILES) < 0) {
        hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", hf_strerror(HF_ENOMEM)));
        return EXIT_FAILURE;
    }
    hf_store_take(settings->store);
    mounts = hf_exports_mounts(&keeper->files.resolver.exports);
    listener = hf_socket_listen_local(settings->socket, SOCK_SEQPACKET, 0660, HF_KEEPER_GUESTS_MAX);
    if (listener < 0) {
        hf_log(HF_LOG_ERROR, "cannot listen", HF_STR("socket", settings->socket),
               HF_STR("reason", listener == HF_EBUSY ? hf_strerror(listener) : strerror(errno)));
        return EXIT_FAILURE;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    if (explain_privileges(hf_keeper_give_up_privileges()) < 0)
        return EXIT_FAILURE;
    files_confined = !INSTRUMENTED && hf_keeper_confine_files() == 0;
    status = hf_guard_run(mounts ? fileno(mounts) : STDERR_FILENO, listener, &stopping);
    return status == HF_GUARD_WORKER ? work(keeper, settings, listener, user, files_confined)
                                     : status;
}

static int start(struct hf_keeper *keeper, struct hf_keeper_settings *settings)
{
    uid_t user;

    hf_log_configure(settings->log_level, HF_LOG_TEXT);
    if (hf_keeper_settings_user(settings, &user) < 0) {
        (void)fprintf(stderr, "holdfast-keeper: there is no user \"%s\" (user=)\n", settings->user);
        return EXIT_USAGE;
    }
    limit_files(settings);
    keeper->files.max = settings->files;
    keeper->files.ranges_max = (uint32_t)settings->ranges;
    keeper->files.resolver.walk.max = settings->search;
    return serve(keeper, settings, user);
}

int main(int argc, char **argv)
{
    static struct hf_keeper keeper;
    struct hf_keeper_settings settings;
    struct hf_settings keys;
    bool check = false;
    int status;

    if (hf_keeper_init(&keeper) < 0)
        return EXIT_FAILURE;
    keys = hf_keeper_settings_init(&settings, &keeper.files.resolver.exports);
    keys.options = OPTIONS;
    keys.help = HELP;
    status = hf_settings_parse(&keys, argc, argv, note_option, &check);
    if (status >= 0)
        return status;
    return check ? EXIT_SUCCESS : start(&keeper, &settings);
}
