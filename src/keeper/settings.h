/* What holdfast-keeper is told: by options, and by a file with one section, [keeper]. */
#ifndef HF_KEEPER_SETTINGS_H
#define HF_KEEPER_SETTINGS_H

#include "base/log.h"
#include "handles/exports.h"
#include "keeper/keeper.h"

#define HF_KEEPER_CONFIG "/etc/holdfast/keeper.conf"
#define HF_KEEPER_SOCKET "/run/holdfast-keeper/socket"

enum { HF_KEEPER_ERROR_MAX = 320 };

struct hf_keeper_settings {
    char socket[108]; /* as long as the path of a unix socket can be */
    char user[64];    /* the daemon's, by name or number */
    uint64_t search;  /* directory entries; see hf_walk */
    uint64_t store;   /* files whose descriptions systemd keeps copies of */
    enum hf_log_level log_level;
    struct hf_keeper_limits limits;
    struct hf_exports *exports;
};

void hf_keeper_settings_init(struct hf_keeper_settings *settings, struct hf_exports *exports);

/* One assignment. HF_EINVAL, with the reason. */
int hf_keeper_settings_set(struct hf_keeper_settings *settings, const char *key, const char *value,
                           char error[HF_KEEPER_ERROR_MAX]);

/* HF_ENOENT if there is no such file; HF_EINVAL, with the reason. */
int hf_keeper_settings_read(struct hf_keeper_settings *settings, const char *file,
                            char error[HF_KEEPER_ERROR_MAX]);

/* The number of settings->user. HF_ENOENT. */
int hf_keeper_settings_user(const struct hf_keeper_settings *settings, uid_t *out);

#endif
