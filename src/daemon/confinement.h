/* Confines the daemon process (confine/confine.h) as its configuration says. */
#ifndef HF_DAEMON_CONFINEMENT_H
#define HF_DAEMON_CONFINEMENT_H

#include "confine/confine.h"
#include "daemon/config.h"

struct hf_confinement {
    bool wanted;
    struct hf_confine confine;
    char socket_directory[HF_CONFIG_TEXT_MAX];
    /* the directory of the history files; "": no history is kept */
    char history[HF_CONFIG_TEXT_MAX];
};

/*
 * Prepares the confinement before the daemon opens anything: finds the user, and gives that user
 * the directories of the store and of the admin socket. Failures are in the log. config and
 * config_file must live as long as *c.
 */
int hf_confinement_prepare(struct hf_confinement *c, const struct hf_config *config,
                           const char *config_file);

/*
 * Confines the daemon when everything is open and before there is a second thread. socket is the
 * path of the admin socket ("": none), rpcbind_socket that of the embedded rpcbind (NULL: none);
 * both are removed at exit.
 */
int hf_confinement_apply(struct hf_confinement *c, const char *socket, const char *rpcbind_socket);

#endif
