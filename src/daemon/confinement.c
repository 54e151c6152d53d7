#include "daemon/confinement.h"

#include <libgen.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "daemon/administration.h"
#include "daemon/recorder.h"

/* The files that the daemon keeps in the directories of the LMDB store and of the admin socket. */
static const char *const STORE_FILES[] = {
    "data.mdb", "lock.mdb",   "holdfast.lock", "journal",     "journal.old", "journal.new",
    "losses",   "losses.new", "history",       "history.old", NULL};
static const char *const HISTORY_FILES[] = {"history", "history.old", NULL};
static const char *const NO_FILES[] = {NULL};

static int prepare_paths(struct hf_confinement *c, const struct hf_config *config,
                         char error[HF_CONFINE_ERROR_MAX])
{
    const struct hf_confine_user *user = &c->confine.user;
    int rv = 0;

    if (config->backend == HF_BACKEND_LMDB) {
        c->confine.write[0] = config->path;
        rv = hf_confine_give_directory(user, config->path, STORE_FILES, error);
    }
    hf_recorder_directory(config, c->history);
    if (rv == 0 && c->history[0] && strcmp(c->history, config->path) != 0) {
        c->confine.write[c->confine.write[0] ? 1 : 0] = c->history;
        rv = hf_confine_give_directory(user, c->history, HISTORY_FILES, error);
    }
    /* The user gets the directory only so that the daemon can remove the admin socket at exit; if
     * the socket stays, the next start replaces it. */
    if (rv == 0 && strcmp(config->admin_socket, "auto") == 0)
        (void)hf_confine_give_directory(user, HF_RUN_DIRECTORY, NO_FILES, error);
    return rv;
}

int hf_confinement_prepare(struct hf_confinement *c, const struct hf_config *config,
                           const char *config_file)
{
    char error[HF_CONFINE_ERROR_MAX] = "";
    unsigned n = 0;
    int rv;

    *c = (struct hf_confinement){.wanted = config->confine};
    if (!c->wanted) {
        hf_log(HF_LOG_WARN, "not confined", HF_STR("reason", "server.confine=no"));
        return 0;
    }
    c->confine.read[n++] = config_file;
    c->confine.read[n++] = config->admin_fh_map;
    rv = hf_confine_find_user(config->user, &c->confine.user, error);
    if (rv == 0)
        rv = prepare_paths(c, config, error);
    if (rv < 0)
        hf_log(HF_LOG_ERROR, "cannot start", HF_STR("reason", error));
    return rv;
}

int hf_confinement_apply(struct hf_confinement *c, const char *socket, const char *rpcbind_socket)
{
    static char rpcbind_directory[HF_CONFIG_TEXT_MAX];
    unsigned n = 0;

    if (!c->wanted)
        return 0;
    if (socket[0]) {
        hf_format(c->socket_directory, sizeof(c->socket_directory), "%s", socket);
        c->confine.remove[n++] = dirname(c->socket_directory);
    }
    if (rpcbind_socket) {
        hf_format(rpcbind_directory, sizeof(rpcbind_directory), "%s", rpcbind_socket);
        c->confine.remove[n++] = dirname(rpcbind_directory);
    }
    return hf_confine(&c->confine);
}
