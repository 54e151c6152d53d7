/* The settings of holdfast-keeper, from options and from a file with one section, [keeper]. */
#ifndef HF_KEEPER_SETTINGS_H
#define HF_KEEPER_SETTINGS_H

#include "handles/settings.h"
#include "keeper/keeper.h"

#define HF_KEEPER_CONFIG "/etc/holdfast/keeper.conf"
#define HF_KEEPER_SOCKET "/run/holdfast-keeper/socket"

struct hf_keeper_settings {
    char socket[HF_SETTINGS_SOCKET_MAX];
    char user[64];   /* the user that the daemon runs as, by name or number */
    uint64_t search; /* how many directory entries a walk looks at (struct hf_walk) */
    uint64_t store;  /* for how many files systemd keeps a copy of the description */
    uint64_t files, ranges, waits, threads; /* the limits (struct hf_keeper_limits) */
    enum hf_log_level log_level;
};

/* Sets the defaults. Returns the keys, which point to the settings and to the exports. */
struct hf_settings hf_keeper_settings_init(struct hf_keeper_settings *settings,
                                           struct hf_exports *exports);

/* Finds the number of settings->user. Returns HF_ENOENT if there is no such user. */
int hf_keeper_settings_user(const struct hf_keeper_settings *settings, uid_t *out);

#endif
