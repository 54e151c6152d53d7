/*
 * Finds paths for file handles in a file that the operator provides (admin.fh_map). It has lines of
 * HEX PATH; comments begin with '#'. File handles are opaque to clients and to this daemon, so only
 * the NFS server knows the paths. The file is read whole at start and at SIGHUP, and its size is
 * bounded.
 */
#ifndef HF_ADMIN_FH_MAP_H
#define HF_ADMIN_FH_MAP_H

#include <stddef.h>

#include "base/bytes.h"

enum { HF_FH_MAP_LINES_MAX = 100000 };

struct hf_fh_name;

struct hf_fh_map {
    struct hf_fh_name *names; /* the file handles with their paths, sorted by handle */
    size_t count;
    size_t room; /* how many names there is room for */
};

void hf_fh_map_init(struct hf_fh_map *map);
void hf_fh_map_free(struct hf_fh_map *map);

/* Replaces the map by the one in the file; a path of "" makes the map empty. HF_EINVAL, HF_ENOMEM:
 * the map is unchanged, and the reason is in the log. */
int hf_fh_map_read(struct hf_fh_map *map, const char *path);

/* Returns the path of the file handle; NULL: the map has none. */
const char *hf_fh_map_path(const struct hf_fh_map *map, struct hf_bytes fh);

#endif
