/*
 * The configuration (SPEC section 6): keys with values, read from an INI file and from --set
 * options, and checked before the daemon opens anything. An unknown key or a bad value is an error
 * that names file, line and key; the daemon never falls back to a default instead.
 */
#ifndef HF_DAEMON_CONFIG_H
#define HF_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/network.h"

enum {
    HF_CONFIG_TEXT_MAX = 512,
    HF_CONFIG_LISTEN_MAX = 8,
    HF_CONFIG_ALLOW_MAX = 32,
    HF_CONFIG_EXPORT_RULES_MAX = 32,
    HF_CONFIG_CLIENTS_MAX = 64,
    HF_CONFIG_PATTERN_MAX = 64, /* the length of the longest NFSv3 file handle */
    HF_CONFIG_ERROR_MAX = 1024,
    HF_CONFIG_NODE_MAX = 63,
    HF_CONFIG_SERVICE_MAX = 32,
};

/* The values of enumerated keys, in the order in which config_keys.c names them. */
enum hf_programs { HF_PROGRAMS_ALL, HF_PROGRAMS_NSM };
enum hf_rpcbind_mode { HF_RPCBIND_SYSTEM, HF_RPCBIND_EMBEDDED, HF_RPCBIND_NONE, HF_RPCBIND_AUTO };
enum hf_config_grace { HF_GRACE_BY_ALL, HF_GRACE_BY_CONFLICT, HF_GRACE_AUTO };
enum hf_cluster_mode { HF_CLUSTER_SINGLE, HF_CLUSTER_STANDBY };
enum hf_backend { HF_BACKEND_MEMORY, HF_BACKEND_LMDB, HF_BACKEND_POSTGRES };

/* Enumerations whose values are in the order of the configuration's choices. */
enum hf_unmirrored { HF_UNMIRRORED_REFUSE, HF_UNMIRRORED_GRANT };
enum hf_config_durable { HF_DURABLE_NO, HF_DURABLE_YES, HF_DURABLE_PROCESS };
enum hf_config_recovery { HF_RECOVERY_ALWAYS, HF_RECOVERY_NEEDED };

/*
 * Section [share NAME]: a file handle with these bytes at this offset belongs to the export NAME.
 */
struct hf_config_export_rule {
    char name[40];
    unsigned offset;
    unsigned len;
    uint8_t bytes[HF_CONFIG_PATTERN_MAX];
};

struct hf_config_addresses {
    struct hf_addr list[HF_CONFIG_LISTEN_MAX];
    unsigned n;
};

struct hf_config_networks {
    struct hf_network list[HF_CONFIG_ALLOW_MAX];
    unsigned n; /* how many networks the list has; 0: all are allowed */
};

/* Section [client NAME]: all requests with that name from these networks are of one client. */
struct hf_config_client {
    char name[256];
    struct hf_config_networks addresses;
    uint32_t at_once; /* the client uses several addresses at a time (TRK-02); 0: no, 1: yes */
};

struct hf_config {
    char name[HF_CONFIG_TEXT_MAX];
    struct hf_config_addresses listen;
    uint32_t port;
    uint32_t busy_poll; /* microseconds */
    uint32_t programs;
    /* The user that the daemon runs as: a name or number, "auto", or empty: the daemon keeps its
     * user. */
    char user[HF_CONFIG_TEXT_MAX];
    uint32_t confine;

    uint32_t rpcbind_mode;

    struct hf_config_networks allow;
    uint32_t access_udp;            /* serve callers by UDP; 0: no, 1: yes */
    uint32_t access_reserved_ports; /* callers must use a reserved port; 0: no, 1: yes */

    uint32_t backend;
    char path[HF_CONFIG_TEXT_MAX];
    char dsn[HF_CONFIG_TEXT_MAX];
    /* the file whose first line is the PostgreSQL connection string (dsn) */
    char dsn_file[HF_CONFIG_TEXT_MAX];

    /* for how many seconds requests wait for the store before they are refused */
    uint32_t patience;

    uint32_t durable; /* enum hf_config_durable */

    uint32_t recovery_notify; /* enum hf_config_recovery */

    uint32_t grace_seconds;
    uint32_t grace_mode; /* enum hf_config_grace */

    uint32_t notify_timeout;
    uint32_t notify_attempts;
    uint32_t notify_in_flight;
    uint32_t notify_on_failure; /* a value of the core's enum hf_on_failure: release, keep */
    uint32_t notify_retry_for;
    uint32_t notify_verify; /* verify crash notices before they count; 0: no, 1: yes */

    uint32_t max_clients;
    uint32_t max_locks_per_owner;
    uint32_t max_locks_per_client;
    uint32_t max_locks_per_file;
    uint32_t max_locks;
    uint32_t max_waiters_per_file;
    uint32_t max_waiters_per_owner;
    uint32_t max_waiters_per_client;
    uint32_t max_clients_per_host;
    uint32_t max_locks_per_host;
    uint32_t max_registrations_per_host;
    uint32_t max_connections_per_host;
    uint32_t max_calls_per_host;

    char service[HF_CONFIG_TEXT_MAX]; /* the name of the service, which its cluster nodes share */
    /* The addresses of the service; if there are none, those of server.listen are used. */
    struct hf_config_addresses cluster_addresses;
    /*
     * The program that brings the service's addresses up and down; empty: an outside manager does.
     */
    char cluster_hook[HF_CONFIG_TEXT_MAX];
    uint32_t cluster_mode; /* enum hf_cluster_mode */
    char node[HF_CONFIG_TEXT_MAX];
    uint32_t lease_ms;
    uint32_t renew_ms;
    uint32_t take_ms;
    uint32_t require_sync; /* refuse a database without a synchronous standby; 0: no, 1: yes */

    /* ADDRESS:PORT of the admin interface; empty: no TCP socket */
    char admin_listen[HF_CONFIG_TEXT_MAX];
    /* other names of this server that the admin interface accepts in a Host header, separated by
     * spaces */
    char admin_hosts[HF_CONFIG_TEXT_MAX];
    /* path of the admin socket, "auto", or empty: no socket */
    char admin_socket[HF_CONFIG_TEXT_MAX];
    char admin_token_file[HF_CONFIG_TEXT_MAX];
    char admin_read_token_file[HF_CONFIG_TEXT_MAX];
    char admin_fh_map[HF_CONFIG_TEXT_MAX];
    char names_socket[HF_CONFIG_TEXT_MAX];
    /* The path of the keeper's socket; "": no coherence with the kernel's locks. */
    char keeper_socket[HF_CONFIG_TEXT_MAX];
    uint32_t coherence_unmirrored; /* enum hf_unmirrored */
    uint32_t coherence_ranges;

    char history_path[HF_CONFIG_TEXT_MAX];
    uint32_t history_size; /* the size of the history's files in MiB */
    uint32_t history_days;
    uint32_t history_longer_than; /* the shortest time, in milliseconds, that the history records */

    uint32_t log_level;  /* enum hf_log_level */
    uint32_t log_format; /* enum hf_log_format */

    struct hf_config_export_rule export_rules[HF_CONFIG_EXPORT_RULES_MAX];
    unsigned n_export_rules;

    struct hf_config_client clients[HF_CONFIG_CLIENTS_MAX];
    unsigned n_clients;
};

/* Sets all keys to their defaults; the default of the server's name is this host's name. */
void hf_config_init(struct hf_config *config);

/* Reads a configuration file, whose values replace those already set. On failure error holds
 * "FILE:LINE: KEY: what is wrong", and the configuration must not be used. */
int hf_config_read(struct hf_config *config, const char *path, char error[HF_CONFIG_ERROR_MAX]);

/* Applies one "section.key=value", as given to --set. */
int hf_config_set(struct hf_config *config, const char *assignment,
                  char error[HF_CONFIG_ERROR_MAX]);

/* Refuses values that are valid by themselves but not together. */
int hf_config_check(const struct hf_config *config, char error[HF_CONFIG_ERROR_MAX]);

/* True if only conflicting locks have to wait in the grace period; with grace.mode=auto that
 * depends on whether the service has standbys. */
bool hf_config_has_conflict_grace(const struct hf_config *config);

/*
 * Returns the addresses to listen on: those of the service if it has some, or else server.listen.
 */
const struct hf_config_addresses *hf_config_served(const struct hf_config *config);

/* Prints every key with its value, as a file that hf_config_read() accepts. The DSN is left out,
 * because it may hold a password. */
void hf_config_print(const struct hf_config *config, FILE *out);

/* Reloads the configuration: copies from fresh the keys that can change while the daemon runs, and
 * calls report with each other key that differs, because it needs a restart. */
void hf_config_reload(struct hf_config *config, const struct hf_config *fresh,
                      void (*report)(const char *key));

#endif
