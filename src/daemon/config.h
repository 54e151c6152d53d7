/*
 * The configuration (SPEC section 6): one table of keys, read from an INI file and from --set
 * options, checked before anything is opened. An unknown key or a bad value is an error that names
 * file, line and key; nothing is guessed.
 */
#ifndef HF_DAEMON_CONFIG_H
#define HF_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/addr.h"
#include "base/log.h"

enum {
    HF_CONFIG_TEXT_MAX = 512,
    HF_CONFIG_LISTEN_MAX = 8,
    HF_CONFIG_SHARES_MAX = 32,
    HF_CONFIG_PATTERN_MAX = 64, /* an NFSv3 file handle is no longer */
    HF_CONFIG_ERROR_MAX = 1024,
};

/* The values of enumerated keys, in the order of their names in config.c. */
enum hf_programs { HF_PROGRAMS_ALL, HF_PROGRAMS_NSM };
enum hf_rpcbind_mode { HF_RPCBIND_SYSTEM, HF_RPCBIND_EMBEDDED, HF_RPCBIND_NONE, HF_RPCBIND_AUTO };
enum hf_backend { HF_BACKEND_MEMORY, HF_BACKEND_LMDB, HF_BACKEND_POSTGRES };

/* Files whose handle has these bytes at this offset belong to the share. */
struct hf_config_share {
    char name[40];
    unsigned offset;
    unsigned len;
    uint8_t bytes[HF_CONFIG_PATTERN_MAX];
};

struct hf_config {
    char name[HF_CONFIG_TEXT_MAX];
    struct hf_addr listen[HF_CONFIG_LISTEN_MAX];
    unsigned n_listen;
    uint32_t port;
    uint32_t programs;

    uint32_t rpcbind_mode;

    uint32_t backend;
    char path[HF_CONFIG_TEXT_MAX];
    char dsn[HF_CONFIG_TEXT_MAX];

    uint32_t durable; /* a yes or no, like every switch */

    uint32_t grace_seconds;
    uint32_t grace_mode; /* enum hf_grace_mode of the core: strict, conflict */

    uint32_t notify_timeout;
    uint32_t notify_attempts;
    uint32_t notify_in_flight;
    uint32_t notify_on_failure; /* enum hf_on_failure of the core: release, keep */
    uint32_t notify_retry_for;

    uint32_t max_clients;
    uint32_t max_locks_per_client;
    uint32_t max_locks_per_file;
    uint32_t max_locks;
    uint32_t max_waiters_per_file;

    char admin_listen[HF_CONFIG_TEXT_MAX]; /* ADDRESS:PORT; empty: no TCP */
    char admin_socket[HF_CONFIG_TEXT_MAX]; /* a path, "auto", or empty: none */
    char admin_token_file[HF_CONFIG_TEXT_MAX];
    char admin_fh_map[HF_CONFIG_TEXT_MAX];

    uint32_t log_level;  /* enum hf_log_level */
    uint32_t log_format; /* enum hf_log_format */

    struct hf_config_share shares[HF_CONFIG_SHARES_MAX];
    unsigned n_shares;
};

/* The defaults; the name is this host's. */
void hf_config_init(struct hf_config *config);

/*
 * Reads a file over what is there. On failure error holds "FILE:LINE: KEY: what is wrong", and the
 * configuration must not be used.
 */
int hf_config_read(struct hf_config *config, const char *path, char error[HF_CONFIG_ERROR_MAX]);

/* One "section.key=value", as given to --set. */
int hf_config_set(struct hf_config *config, const char *assignment,
                  char error[HF_CONFIG_ERROR_MAX]);

/* What no single key can tell: values that do not go together. */
int hf_config_check(const struct hf_config *config, char error[HF_CONFIG_ERROR_MAX]);

/* Every key with its value, as a file that could be read again (a DSN, which may hold a password,
 * is not shown). */
void hf_config_print(const struct hf_config *config, FILE *out);

/*
 * For a reload: takes over from fresh what can change while running, and calls report with each key
 * that differs but needs a restart.
 */
void hf_config_reload(struct hf_config *config, const struct hf_config *fresh,
                      void (*report)(const char *key));

#endif
