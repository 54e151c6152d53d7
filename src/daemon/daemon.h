/*
 * The daemon process: opens all rooms in order, runs the loop, and closes them in reverse order.
 */
#ifndef HF_DAEMON_DAEMON_H
#define HF_DAEMON_DAEMON_H

#include "daemon/config.h"

struct hf_daemon_options {
    const char *config_file; /* the file that is read again on SIGHUP, if it exists */
    struct hf_config config;
    /* Reads the configuration again from its file and the command line, for a reload. */
    int (*reread)(struct hf_config *fresh, char error[HF_CONFIG_ERROR_MAX]);
};

/*
 * Exit statuses, beside 0 after a clean stop and 2 for a wrong option or configuration (main.c):
 * EXIT_FAILURE if it could not start but a later attempt may succeed (a port or registration of
 * another process, PostgreSQL not reachable, a full disk), and HF_EXIT_HOPELESS if only an operator
 * can help (a damaged or foreign store, or one written by a newer version). The unit does not
 * restart the daemon after 2 and 3.
 */
enum { HF_EXIT_HOPELESS = 3 };

/* Serves until a signal stops it. Returns the exit status; the reason of a failure is in the log.
 */
int hf_daemon_run(struct hf_daemon_options *options);

struct hf_daemon;

/* With standbys: tells systemd what people see of the cluster, because it has changed. */
void hf_daemon_tell_role(struct hf_daemon *d);

/* Ends the process in order. With standbys, the service has been given up before, or that has
 * failed. */
void hf_daemon_shut_down(struct hf_daemon *d);

#endif
