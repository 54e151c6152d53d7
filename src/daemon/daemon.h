/*
 * The daemon: opens everything in order, runs the loop, and closes everything in reverse order.
 */
#ifndef HF_DAEMON_DAEMON_H
#define HF_DAEMON_DAEMON_H

#include "daemon/config.h"

struct hf_daemon_options {
    struct hf_config config;
    /* For a reload: reads the configuration again from where it came. */
    int (*reread)(struct hf_config *fresh, char error[HF_CONFIG_ERROR_MAX]);
};

/* Serves until told to stop. Returns the exit status; what went wrong is in the log. */
int hf_daemon_run(struct hf_daemon_options *options);

#endif
