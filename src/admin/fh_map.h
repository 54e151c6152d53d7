/*
 * Paths for file handles, as the operator wrote them down (admin.fh_map): lines of HEX PATH. File
 * handles are opaque to us, so only somebody who asked the NFS server can know. Comments begin with
 * '#'. Read whole at start and at SIGHUP, and bounded.
 */
#ifndef HF_ADMIN_FH_MAP_H
#define HF_ADMIN_FH_MAP_H

#include <stddef.h>

#include "base/bytes.h"

enum { HF_FH_MAP_LINES_MAX = 100000 };

struct hf_fh_name;

struct hf_fh_map {
    struct hf_fh_name *names; /* sorted by handle */
    size_t count;
};

void hf_fh_map_init(struct hf_fh_map *map);
void hf_fh_map_free(struct hf_fh_map *map);

/* Replaces what is there; path "" is no map. HF_EINVAL, HF_ENOMEM: as before, the reason logged. */
int hf_fh_map_read(struct hf_fh_map *map, const char *path);

/* NULL if it has no name. */
const char *hf_fh_map_path(const struct hf_fh_map *map, struct hf_bytes fh);

#endif
