#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/admin.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"
#include "confine/confine.h"
#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/own_addresses.h"
#include "daemon/store_settings.h"
#include "daemon/store_tools.h"

enum { SETS_MAX = 64, EXIT_USAGE = 2 };

static const char DEFAULT_CONFIG[] = "/etc/holdfast/holdfast.conf";

/* The options of the command line, which a reload applies again. */
static struct {
    const char *config; /* the configuration file; NULL: the default file, if it exists */
    const char *sets[SETS_MAX];
    unsigned n_sets;
    bool check_config;
    bool print_config;
    /* the argument of --migrate: up, down or status; NULL: no migration is wanted */
    const char *migrate;
    bool verify_store;
    const char *restore; /* the argument of --restore: a backup file; NULL: no restore is wanted */
    bool drop_addresses;
} command;

static void complain(const char *what, const char *reason)
{
    (void)fprintf(stderr, "%sholdfastd: %s%s%s\n", hf_log_priority(HF_LOG_ERROR), what,
                  what[0] ? ": " : "", reason);
}

static void print_help(FILE *out)
{
    (void)fprintf(
        out,
        "Usage: holdfastd [OPTION]...\n"
        "Serve NLM (locks) and NSM (crash notices) beside an NFSv3 server.\n"
        "\n"
        "  -c, --config FILE       read the configuration from FILE\n"
        "                          (default: %s, if it exists)\n"
        "  -s, --set SECTION.KEY=VALUE\n"
        "                          set one value, over the file; may be repeated\n"
        "      --check-config      check the configuration and exit\n"
        "      --print-config      print every key with its value and exit\n"
        "      --migrate up|down|status\n"
        "                          bring the PostgreSQL schema up to date, revert its newest\n"
        "                          migration, or show its version, and exit\n"
        "      --verify-store      check every record of a store that no daemon uses, and exit\n"
        "      --restore FILE      fill an empty store from a backup that holdfastctl made, and\n"
        "                          exit\n"
        "      --drop-addresses    remove the service's addresses from this host after its\n"
        "                          processes were killed, and exit (cluster.hook)\n"
        "  -V, --version           print the version and exit\n"
        "  -h, --help              print this help and exit\n"
        "\n"
        "Signals: SIGTERM and SIGINT stop, SIGHUP reloads what can change while running\n"
        "(log.*, limits.*) and registers with rpcbind again if that has forgotten us. See\n"
        "holdfastd(8) and holdfast.conf(5).\n",
        DEFAULT_CONFIG);
}

/* Reads the configuration file, applies the --set options in order, and checks the result. */
static int load_config(struct hf_config *config, char error[HF_CONFIG_ERROR_MAX])
{
    const char *path = command.config;
    int rv = 0;

    hf_config_init(config);
    if (!path && access(DEFAULT_CONFIG, F_OK) == 0)
        path = DEFAULT_CONFIG;
    if (path)
        rv = hf_config_read(config, path, error);
    for (unsigned i = 0; i < command.n_sets && rv == 0; i++)
        rv = hf_config_set(config, command.sets[i], error);
    return rv < 0 ? rv : hf_config_check(config, error);
}

/* Parses the command line into `command`. Returns an exit status if the program must end, or -1 to
 * go on. */
static int parse_options(int argc, char **argv)
{
    enum { CHECK = 256, PRINT, MIGRATE, VERIFY, RESTORE, DROP };
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"set", required_argument, NULL, 's'},
        {"check-config", no_argument, NULL, CHECK},
        {"print-config", no_argument, NULL, PRINT},
        {"migrate", required_argument, NULL, MIGRATE},
        {"verify-store", no_argument, NULL, VERIFY},
        {"restore", required_argument, NULL, RESTORE},
        {"drop-addresses", no_argument, NULL, DROP},
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "c:s:Vh", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            command.config = optarg;
            break;
        case 's':
            if (command.n_sets == SETS_MAX) {
                (void)fprintf(stderr, "holdfastd: more than %d --set options\n", SETS_MAX);
                return EXIT_USAGE;
            }
            command.sets[command.n_sets++] = optarg;
            break;
        case CHECK:
            command.check_config = true;
            break;
        case PRINT:
            command.print_config = true;
            break;
        case MIGRATE:
            command.migrate = optarg;
            break;
        case VERIFY:
            command.verify_store = true;
            break;
        case RESTORE:
            command.restore = optarg;
            break;
        case DROP:
            command.drop_addresses = true;
            break;
        case 'V':
            printf("holdfastd %s\n", HF_VERSION);
            return EXIT_SUCCESS;
        case 'h':
            print_help(stdout);
            return EXIT_SUCCESS;
        default:
            (void)fprintf(stderr, "Try 'holdfastd --help'.\n");
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "holdfastd: unexpected argument '%s'\nTry 'holdfastd --help'.\n",
                      argv[optind]);
        return EXIT_USAGE;
    }
    return -1;
}

/* Returns why the address hook cannot be run; NULL if some user can execute it. It does not ask for
 * this process's own rights, because the runner, which runs the hook, has others. */
static const char *hook_obstacle(const char *hook)
{
    struct stat st;

    if (hook[0] == '\0')
        return NULL;
    if (stat(hook, &st) < 0)
        return strerror(errno);
    if (!S_ISREG(st.st_mode))
        return "cluster.hook must be a program, and this is no regular file";
    return st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)
               ? NULL
               : "cluster.hook is not executable: chmod +x makes it so";
}

/* Returns false if the user that the daemon will run as cannot read a configured file. Root, who
 * may run this check, could read every file. */
static bool service_may_read(const struct hf_config *config)
{
    const char *const files[] = {command.config ? command.config : DEFAULT_CONFIG,
                                 config->admin_token_file, config->admin_read_token_file,
                                 config->admin_fh_map, config->dsn_file};
    char error[HF_CONFINE_ERROR_MAX];
    struct hf_confine_user user;
    char reason[256];
    bool good = true;
    int rv = 0;

    if (geteuid() != 0 || (strcmp(config->user, "auto") == 0 && !getpwnam("holdfast")))
        return true;
    if (hf_confine_find_user(config->user, &user, error) < 0) {
        complain("server.user", error);
        return false;
    }
    if (!user.change || hf_confine_borrow_user(&user) < 0)
        return true;
    for (size_t i = 0; i < HF_COUNT_OF(files); i++) {
        if (files[i][0])
            rv = hf_confine_check_access(files[i], R_OK);
        if (!files[i][0] || rv == 0 || rv == -ENOENT)
            continue;
        hf_format(reason, sizeof(reason),
                  "the service's user, %.60s, cannot read it: chgrp %.60s and chmod 0640, and let "
                  "its directory be entered; or hand it over by LoadCredential= of systemd",
                  user.name, user.name);
        complain(files[i], reason);
        good = false;
    }
    hf_confine_return_user(&user);
    return good;
}

/* Checks the files that the configuration names, as the service's user finds them. A start would
 * fail only on a dsn_file that cannot be used: it would do without a token or map, and would run
 * the address hook only when the node takes the service. */
static bool files_are_good(const struct hf_config *config)
{
    char dsn[HF_CONFIG_TEXT_MAX];
    struct hf_store_config store;
    const char *reason;
    struct hf_admin_config admin = {
        .token_file = config->admin_token_file,
        .read_token_file = config->admin_read_token_file,
        .fh_map = config->admin_fh_map,
    };
    bool good = hf_admin_check_files(&admin) == 0;

    if (hf_store_config_from(config, dsn, &store, &reason) < 0) {
        complain(config->dsn_file, reason);
        good = false;
    } else if (config->backend == HF_BACKEND_POSTGRES && (reason = hf_store_dsn_obstacle(dsn))) {
        complain(config->dsn_file[0] ? config->dsn_file : "store.dsn", reason);
        good = false;
    }
    reason = hook_obstacle(config->cluster_hook);
    if (reason) {
        complain(config->cluster_hook, reason);
        good = false;
    }
    return service_may_read(config) && good;
}

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

static int migrate(const struct hf_config *config)
{
    static const char *const directions[] = {"up", "down", "status"};
    char dsn[HF_CONFIG_TEXT_MAX];
    struct hf_store_config store;
    char error[HF_STORE_ERROR_MAX];
    const char *reason;

    if (hf_store_config_from(config, dsn, &store, &reason) < 0) {
        complain(config->dsn_file, reason);
        return EXIT_FAILURE;
    }
    for (int i = HF_MIGRATE_UP; i <= HF_MIGRATE_STATUS; i++) {
        if (strcmp(command.migrate, directions[i]) != 0)
            continue;
        if (hf_store_migrate(&store, (enum hf_migrate)i, print_line, NULL, error) == 0)
            return EXIT_SUCCESS;
        complain("", error);
        return EXIT_FAILURE;
    }
    complain("--migrate", "takes up, down or status");
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    static struct hf_daemon_options options = {.reread = load_config};
    char error[HF_CONFIG_ERROR_MAX];
    int status = parse_options(argc, argv);

    if (status >= 0)
        return status;
    if (load_config(&options.config, error) < 0) {
        complain("", error);
        return EXIT_USAGE;
    }
    if (command.print_config)
        hf_config_print(&options.config, stdout);
    if (command.check_config && !files_are_good(&options.config))
        return EXIT_USAGE;
    if (command.check_config && !command.print_config)
        printf("The configuration is good.\n");
    if (command.print_config || command.check_config)
        return EXIT_SUCCESS;
    if (command.migrate)
        return migrate(&options.config);
    if (command.verify_store)
        return hf_store_tools_verify(&options.config);
    if (command.restore)
        return hf_store_tools_restore(&options.config, command.restore);
    hf_log_configure((enum hf_log_level)options.config.log_level,
                     (enum hf_log_format)options.config.log_format);
    if (command.drop_addresses)
        return hf_own_addresses_clear(&options.config);
    options.config_file = command.config ? command.config : DEFAULT_CONFIG;
    return hf_daemon_run(&options);
}
