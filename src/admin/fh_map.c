#include "admin/fh_map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/log.h"

/* A handle has at most 64 bytes (RFC 1813); a line of the map has a handle in hex and a path. */
enum { FH_BYTES_MAX = 64, LINE_BYTES_MAX = 8192 };

struct hf_fh_name {
    uint8_t fh[FH_BYTES_MAX];
    size_t len;
    char *path;
};

void hf_fh_map_init(struct hf_fh_map *map)
{
    *map = (struct hf_fh_map){0};
}

void hf_fh_map_free(struct hf_fh_map *map)
{
    for (size_t i = 0; i < map->count; i++)
        free(map->names[i].path);
    free(map->names);
    hf_fh_map_init(map);
}

static int compare(const void *a, const void *b)
{
    const struct hf_fh_name *x = a;
    const struct hf_fh_name *y = b;
    int order = memcmp(x->fh, y->fh, x->len < y->len ? x->len : y->len);

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static bool grow(struct hf_fh_map *map)
{
    size_t room = map->room ? 2 * map->room : 64;
    struct hf_fh_name *names = realloc(map->names, room * sizeof(*names));

    if (!names)
        return false;
    map->names = names;
    map->room = room;
    return true;
}

static int add_line(struct hf_fh_map *map, char *line)
{
    size_t hex = strcspn(line, " \t\n");
    char *path = line + hex + strspn(line + hex, " \t");
    struct hf_fh_name name = {0};
    int len;

    if (line[0] == '#' || line[0] == '\n')
        return 0;
    path[strcspn(path, "\n")] = '\0';
    len = hf_hex_decode(line, hex, name.fh, sizeof(name.fh));
    if (len < 0 || !path[0] || map->count == HF_FH_MAP_LINES_MAX)
        return HF_EINVAL;
    name.len = (size_t)len;
    if (map->count == map->room && !grow(map))
        return HF_ENOMEM;
    name.path = strdup(path);
    if (!name.path)
        return HF_ENOMEM;
    map->names[map->count++] = name;
    return 0;
}

int hf_fh_map_read(struct hf_fh_map *map, const char *path)
{
    struct hf_fh_map fresh = {0};
    char line[LINE_BYTES_MAX];
    int64_t number = 0;
    FILE *file = NULL;
    int rv = 0;

    if (path[0]) {
        file = fopen(path, "re");
        rv = file ? 0 : HF_EINVAL;
    }
    while (rv == 0 && file && fgets(line, sizeof(line), file)) {
        number++;
        rv = add_line(&fresh, line);
    }
    if (rv < 0) {
        hf_log(HF_LOG_ERROR, "cannot use admin.fh_map", HF_STR("file", path),
               HF_INT("line", number),
               HF_STR("reason", file ? "expected HEX PATH" : strerror(errno)));
        hf_fh_map_free(&fresh);
    } else {
        if (fresh.count > 0)
            qsort(fresh.names, fresh.count, sizeof(*fresh.names), compare);
        hf_fh_map_free(map);
        *map = fresh;
    }
    if (file)
        (void)fclose(file);
    return rv;
}

const char *hf_fh_map_path(const struct hf_fh_map *map, struct hf_bytes fh)
{
    struct hf_fh_name key = {.len = fh.len};
    const struct hf_fh_name *found;

    if (map->count == 0 || fh.len > sizeof(key.fh))
        return NULL;
    memcpy(key.fh, fh.data, fh.len);
    found = bsearch(&key, map->names, map->count, sizeof(*map->names), compare);
    return found ? found->path : NULL;
}
