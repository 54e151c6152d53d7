/* The settings of holdfast-keeper, from options and from a file with one section, [keeper]. */
#ifndef HF_KEEPER_SETTINGS_H
#define HF_KEEPER_SETTINGS_H

#include "base/log.h"
#include "handles/exports.h"
#include "keeper/keeper.h"

#define HF_KEEPER_CONFIG "/etc/holdfast/keeper.conf"
#define HF_KEEPER_SOCKET "/run/holdfast-keeper/socket"

enum { HF_KEEPER_ERROR_MAX = 320 };

struct hf_keeper_settings {
    char socket[108]; /* the socket's path, as long as that of a unix socket can be */
    char user[64];    /* the user that the daemon runs as, by name or number */
    uint64_t search;  /* how many directory entries a walk looks at; see hf_walk */
    uint64_t store;   /* how many files systemd keeps copies of the descriptions of */
    enum hf_log_level log_level;
    struct hf_keeper_limits limits;
    struct hf_exports *exports;
};

void hf_keeper_settings_init(struct hf_keeper_settings *settings, struct hf_exports *exports);

/* Makes one assignment. Returns HF_EINVAL, with the reason. */
int hf_keeper_settings_set(struct hf_keeper_settings *settings, const char *key, const char *value,
                           char error[HF_KEEPER_ERROR_MAX]);

/* Returns HF_ENOENT if there is no such file; HF_EINVAL, with the reason, if it is wrong. */
int hf_keeper_settings_read(struct hf_keeper_settings *settings, const char *file,
                            char error[HF_KEEPER_ERROR_MAX]);

/* Finds the number of settings->user. Returns HF_ENOENT if there is no such user. */
int hf_keeper_settings_user(const struct hf_keeper_settings *settings, uid_t *out);

#endif
