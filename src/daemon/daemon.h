/* The daemon process: opens all its parts in order, runs the loop, and closes them in reverse
 * order. */
#ifndef HF_DAEMON_DAEMON_H
#define HF_DAEMON_DAEMON_H

#include "daemon/config.h"

struct hf_daemon_options {
    /* the configuration file, which a SIGHUP makes the daemon read again */
    const char *config_file;
    struct hf_config config;
    /* For a reload: reads the configuration again, from its file and the command line. */
    int (*reread)(struct hf_config *fresh, char error[HF_CONFIG_ERROR_MAX]);
};

/* Exit statuses, besides 0 after a clean stop and 2 for a wrong option or configuration (main.c):
 * EXIT_FAILURE if the daemon could not start but a later attempt may succeed (another process has
 * the port or the registration, PostgreSQL is not reachable, the disk is full), and
 * HF_EXIT_HOPELESS if only an operator can help (a damaged or foreign store, or one written by a
 * newer version). The systemd unit does not restart the daemon after 2 and 3. */
enum { HF_EXIT_HOPELESS = 3 };

/* Runs the daemon until a signal stops it. Returns the exit status; the reason of a failure is in
 * the log. */
int hf_daemon_run(struct hf_daemon_options *options);

struct hf_daemon;

/* With standbys: shows the daemon's role in `systemctl status`, after it has changed. */
void hf_daemon_tell_role(struct hf_daemon *d);

/* Ends the process in order. With standbys, the service has been given up before, or the attempt
 * has failed. */
void hf_daemon_shut_down(struct hf_daemon *d);

#endif
