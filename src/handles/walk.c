#include "handles/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

void hf_walk_init(struct hf_walk *walk, struct hf_exports *exports, struct hf_places *places,
                  uint64_t max)
{
    *walk = (struct hf_walk){.exports = exports, .places = places, .max = max};
}

/* ---- the directory that the walk is in ---- */

static DIR *open_here(struct hf_walk *walk)
{
    struct hf_root *root = &walk->exports->roots[walk->root];
    int fd = hf_root_open_below(root, walk->path, O_RDONLY | O_DIRECTORY, false);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !dir)
        close(fd);
    if (dir && walk->levels[walk->depth].position)
        seekdir(dir, walk->levels[walk->depth].position);
    return dir;
}

static void enter_root(struct hf_walk *walk, size_t root)
{
    walk->root = root;
    walk->depth = 0;
    walk->path[0] = '\0';
    walk->levels[0].len = 0;
    walk->levels[0].position = 0;
}

/* Goes down into a directory; false if the directory is too deep, and so left out. */
static bool descend(struct hf_walk *walk, DIR *dir, const char *name)
{
    size_t len = walk->levels[walk->depth].len;
    size_t more = strlen(name);

    if (walk->depth + 1 == HF_WALK_DEPTH_MAX || len + more + 2 > sizeof(walk->path))
        return false;
    walk->levels[walk->depth].position = telldir(dir);
    if (len > 0)
        walk->path[len++] = '/';
    memcpy(walk->path + len, name, more + 1);
    walk->depth++;
    walk->levels[walk->depth].len = len + more;
    walk->levels[walk->depth].position = 0;
    return true;
}

/* Goes back up to where the walk goes on; false if the walk is over. */
static bool ascend(struct hf_walk *walk)
{
    if (walk->depth == 0) {
        if (walk->root + 1 >= walk->exports->n_roots)
            return false;
        enter_root(walk, walk->root + 1);
        return true;
    }
    walk->depth--;
    walk->path[walk->levels[walk->depth].len] = '\0';
    return true;
}

/* ---- one entry ---- */

static void remember(struct hf_walk *walk, const struct stat *st, const char *name)
{
    const struct hf_root *root = &walk->exports->roots[walk->root];
    const struct hf_place *place = hf_places_get(walk->places, st->st_dev, st->st_ino);
    char path[HF_PATH_BYTES_MAX];
    int len = snprintf(path, sizeof(path), "%s%s%s%s%s", root->path[1] ? root->path : "",
                       walk->path[0] ? "/" : "", walk->path, "/", name);

    if (place && !place->path && len > 0 && (size_t)len < sizeof(path))
        hf_places_put(walk->places, st->st_dev, st->st_ino, path);
}

/* Looks at one directory entry; true if it is a directory that the walk has gone down into. */
static bool look_at(struct hf_walk *walk, DIR *dir, const struct dirent *entry)
{
    bool wanted = hf_places_may_want(walk->places, entry->d_ino);
    bool is_dir = entry->d_type == DT_DIR;
    struct stat st;

    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return false;
    if (wanted || entry->d_type == DT_UNKNOWN) {
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
            return false;
        is_dir = S_ISDIR(st.st_mode);
        if (wanted)
            remember(walk, &st, entry->d_name);
    }
    return is_dir && descend(walk, dir, entry->d_name);
}

/* ---- slices ---- */

/* Does one slice of the walk; false when the walk is over. */
static bool slice(struct hf_walk *walk)
{
    DIR *dir = open_here(walk);
    bool going = true;

    for (unsigned n = 0; n < HF_WALK_SLICE && going && walk->seen < walk->max; n++) {
        const struct dirent *entry = dir ? readdir(dir) : NULL;
        bool moved = false;

        walk->seen++;
        if (!entry) {
            going = ascend(walk) && walk->places->n_wanted > 0;
            moved = true;
        } else {
            moved = look_at(walk, dir, entry);
        }
        if (moved) {
            if (dir)
                (void)closedir(dir);
            dir = going ? open_here(walk) : NULL;
        }
    }
    if (dir) {
        walk->levels[walk->depth].position = telldir(dir);
        (void)closedir(dir);
    }
    return going && walk->seen < walk->max;
}

static void begin(struct hf_walk *walk, int64_t now_ms)
{
    walk->running = true;
    walk->gathering = false;
    walk->seen = 0;
    walk->worked_ms = 0;
    walk->started_ms = now_ms;
    walk->places->round++;
    enter_root(walk, 0);
}

static void end(struct hf_walk *walk)
{
    size_t wanted = walk->places->n_wanted;

    walk->running = false;
    walk->cut = walk->seen >= walk->max;
    hf_places_give_up(walk->places);
    hf_log(HF_LOG_INFO, "searched the exports", HF_UINT("entries", walk->seen),
           HF_INT("ms", walk->worked_ms), HF_UINT("not_found", wanted - walk->places->n_wanted),
           HF_STR("complete", walk->cut ? "no; see --search" : "yes"));
}

int hf_walk_step(struct hf_walk *walk, int64_t now_ms)
{
    bool going;

    if (walk->max == 0 || (!walk->running && walk->places->n_wanted == 0))
        return -1;
    if (!walk->running && !walk->gathering) {
        walk->gathering = true;
        if (walk->next_ms < now_ms + HF_WALK_GATHER_MS)
            walk->next_ms = now_ms + HF_WALK_GATHER_MS;
    }
    if (now_ms < walk->next_ms)
        return (int)(walk->next_ms - now_ms);
    hf_exports_look(walk->exports, now_ms);
    if (walk->exports->n_roots == 0) {
        walk->next_ms = now_ms + HF_WALK_REST_MS;
        return HF_WALK_REST_MS;
    }
    if (!walk->running)
        begin(walk, now_ms);
    if (walk->root >= walk->exports->n_roots) /* there are fewer roots than when the walk began */
        enter_root(walk, 0);
    going = slice(walk);
    walk->worked_ms += (int64_t)hf_clock_mono_ms() - now_ms;
    walk->next_ms = going ? now_ms + 4 * ((int64_t)hf_clock_mono_ms() - now_ms)
                          : now_ms + HF_WALK_REST_MS + 10 * walk->worked_ms;
    if (!going)
        end(walk);
    hf_exports_close(walk->exports);
    return walk->running || walk->places->n_wanted > 0 ? (int)(walk->next_ms - now_ms) : -1;
}
