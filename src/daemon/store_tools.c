#include "daemon/store_tools.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "confine/confine.h"
#include "daemon/confinement.h"
#include "daemon/loading.h"
#include "daemon/store_settings.h"
#include "store/backup.h"

/* The time limit of a restore is long, because one transaction holds all records. */
enum { RESTORE_TIMEOUT_MS = 10 * 60 * 1000 };

static int complain(const char *what, const char *reason)
{
    (void)fprintf(stderr, "%sholdfastd: %s: %s\n", hf_log_priority(HF_LOG_ERROR), what, reason);
    return EXIT_FAILURE;
}

/* Reads the store's settings; dsn is room for the connection string. Returns false, after printing
 * the reason, if the configuration cannot be used. */
static bool configure(const struct hf_config *config, char dsn[HF_CONFIG_TEXT_MAX],
                      struct hf_store_config *out)
{
    const char *reason;

    if (hf_store_config_from(config, dsn, out, &reason) == 0)
        return true;
    (void)complain(config->dsn_file, reason);
    return false;
}

static const char *place_of(const struct hf_config *config)
{
    return config->backend == HF_BACKEND_LMDB ? config->path : "its database";
}

/* ---- verify ---- */

struct sum {
    struct hf_record_server server;
    uint64_t clients, locks, digest;
    struct hf_core *core; /* all records are loaded into this core, as a daemon would do */
    uint64_t conflicts;
};

static int decode(enum hf_record_kind kind, struct hf_bytes record, struct sum *sum)
{
    struct hf_record_client client;
    struct hf_record_lock lock;

    switch (kind) {
    case HF_RECORD_SERVER:
        return hf_record_decode_server(record, &sum->server);
    case HF_RECORD_CLIENT:
        sum->clients++;
        return hf_record_decode_client(record, &client);
    case HF_RECORD_LOCK:
        sum->locks += hf_record_is_held(record);
        return hf_record_decode_lock(record, &lock);
    }
    return HF_EFORMAT;
}

/* Loads a record into the core. Every record that contradicts another is reported, not only the
 * first. */
static int load(enum hf_record_kind kind, struct hf_bytes record, struct sum *sum)
{
    char text[HF_STORE_ERROR_MAX];
    int rv = hf_core_load(sum->core, kind, record);

    if (rv != HF_EEXIST && rv != HF_ENOENT)
        return rv;
    sum->conflicts++;
    (void)hf_loading_blame_records(sum->core, rv, text);
    (void)complain("the store", text);
    return 0;
}

static int add(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct sum *sum = ctx;
    int rv = decode(kind, record, sum);

    if (kind == HF_RECORD_CLIENT || hf_record_is_held(record))
        sum->digest += hf_record_hash(record);
    return rv < 0 ? rv : load(kind, record, sum);
}

/* Reads the store as the user who owns its directory: as root, this program would follow any link
 * that this user placed there. */
static int read_as_owner(const struct hf_config *config, struct hf_store *store,
                         const struct hf_store_config *settings, struct sum *sum)
{
    struct hf_confine_user owner = {0};
    int rv;

    if (config->backend == HF_BACKEND_LMDB)
        hf_confine_find_owner(config->path, &owner);
    rv = hf_confine_borrow_user(&owner);
    if (rv == 0)
        rv = hf_store_read(store, settings, add, sum);
    hf_confine_return_user(&owner);
    return rv;
}

int hf_store_tools_verify(const struct hf_config *config)
{
    char dsn[HF_CONFIG_TEXT_MAX];
    struct hf_store_config settings;
    struct hf_store store;
    struct hf_core_config core = hf_core_config_default();
    struct sum sum = {.core = hf_core_new(&core, &hf_alloc_heap)};
    int rv;

    if (!sum.core || !configure(config, dsn, &settings)) {
        hf_core_del(sum.core);
        return EXIT_FAILURE;
    }
    rv = read_as_owner(config, &store, &settings, &sum);
    hf_core_del(sum.core);
    if (rv == 0 && sum.conflicts > 0)
        return complain("the store is not good", "records do not go together");
    if (rv < 0) {
        const char *why = hf_store_error(&store);
        return complain("the store is not good", why[0] ? why : hf_strerror(rv));
    }
    printf("store    %s in %s\nepoch    %" PRIu64 ", %s\nclients  %" PRIu64 "\nlocks    %" PRIu64
           "\ndigest   %" PRIu64 "\nThe store is good.\n",
           settings.backend, place_of(config), sum.server.epoch,
           sum.server.clean ? "stopped cleanly" : "not stopped cleanly", sum.clients, sum.locks,
           sum.digest);
    return EXIT_SUCCESS;
}

/* ---- restore ---- */

static int read_file(const char *path, struct hf_buf *out)
{
    enum { PIECE = 1 << 16 };
    FILE *file = fopen(path, "re");
    uint8_t *room;
    size_t n = 0;
    int rv;

    if (!file)
        return complain(path, strerror(errno));
    while ((room = hf_buf_reserve(out, PIECE)) && (n = fread(room, 1, PIECE, file)) > 0)
        hf_buf_commit(out, n);
    rv = !room          ? complain(path, "out of memory")
         : ferror(file) ? complain(path, strerror(errno))
                        : EXIT_SUCCESS;
    (void)fclose(file);
    return rv;
}

static void print_content(const struct hf_backup_content *content)
{
    char when[32] = "";
    time_t seconds = content->made_at_ms / 1000;
    struct tm tm;

    if (gmtime_r(&seconds, &tm))
        (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
    printf("backup   of %s\nclients  %" PRIu64 "\nlocks    %" PRIu64 "\ndigest   %" PRIu64 "\n",
           when, content->clients, content->locks, content->digest);
}

/* Restores the backup into the store as the user that the daemon will run as, who must own its
 * files. */
static int fill_store(const struct hf_config *config, const struct hf_backup_content *content,
                      struct hf_batch *records)
{
    struct hf_confinement confinement;
    char dsn[HF_CONFIG_TEXT_MAX];
    struct hf_store_config settings;
    struct hf_store store;
    int rv;

    if (!configure(config, dsn, &settings) ||
        hf_confinement_prepare(&confinement, config, NULL) < 0)
        return EXIT_FAILURE;
    if (config->backend == HF_BACKEND_MEMORY)
        return complain("cannot restore", "store.backend=memory keeps nothing");
    settings.timeout_ms = RESTORE_TIMEOUT_MS;
    if (hf_confine_borrow_user(&confinement.confine.user) < 0)
        return complain("cannot restore", "cannot become server.user");
    rv = hf_store_open(&store, &settings);
    if (rv == 0)
        rv = hf_backup_restore(&store, content, records);
    if (rv < 0) {
        const char *why = hf_store_error(&store);
        (void)complain("nothing was restored", why[0] ? why : hf_strerror(rv));
    }
    hf_store_close(&store);
    hf_confine_return_user(&confinement.confine.user);
    return rv < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int hf_store_tools_restore(const struct hf_config *config, const char *file)
{
    struct hf_backup_content content;
    struct hf_batch records;
    struct hf_buf bytes;
    const char *reason;
    int status;

    hf_buf_init(&bytes, &hf_alloc_heap);
    hf_batch_init(&records, &hf_alloc_heap);
    status = read_file(file, &bytes);
    if (status == EXIT_SUCCESS &&
        hf_backup_parse(hf_buf_view(&bytes), &records, &content, &reason) < 0)
        status = complain(file, reason);
    if (status == EXIT_SUCCESS)
        status = fill_store(config, &content, &records);
    if (status == EXIT_SUCCESS) {
        print_content(&content);
        printf("Restored into %s. Start holdfastd now: it begins a new epoch and notifies all "
               "clients, which reclaim their locks.\n",
               place_of(config));
    }
    hf_batch_free(&records);
    hf_buf_free(&bytes);
    return status;
}
