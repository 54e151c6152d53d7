/*
 * The exports: directories whose files may be named; files outside of them may not. A root is an
 * export, or a file system that is mounted below one, together with what identifies its file system
 * in a file handle.
 *
 * Roots are opened when a batch of requests begins and closed when it ends: a directory that stays
 * open would keep its file system from being unmounted.
 */
#ifndef HF_HANDLES_EXPORTS_H
#define HF_HANDLES_EXPORTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/quote.h"
#include "handles/handle.h"

enum { HF_EXPORTS_MAX = 64, HF_ROOTS_MAX = 256, HF_EXPORTS_FRESH_MS = 2000 };

struct hf_root {
    char *path; /* the path without symbolic links; "/" or without a slash at its end */
    bool is_export;
    /* The root is a whole file system, so every file of that file system is inside. */
    bool is_whole;
    /* The root's mount is no bind mount of a part of its file system, so the paths that the kernel
     * gives for files in it are complete. */
    bool from_top;
    size_t mount_len; /* the length of the path of the root's mount */
    int fd;           /* the descriptor of the root's directory; -1: the root is not open */
    dev_t device;
    ino_t inode; /* the inode of the root's directory; 0: it was not looked at yet */
    uint32_t statfs[2];
    uint8_t uuid[16];
    bool has_uuid;
};

struct hf_exports {
    char *configured[HF_EXPORTS_MAX];
    size_t n_configured;
    /* The roots of the exports; exports that exist come first. */
    struct hf_root roots[HF_ROOTS_MAX];
    size_t n_roots;
    int64_t looked_ms; /* when the roots were looked for; -1: never */
    FILE *mounts;      /* /proc/self/mountinfo, open for as long as the process lives */
};

void hf_exports_init(struct hf_exports *exports);
void hf_exports_free(struct hf_exports *exports);

/* Adds an export, which need not exist yet. Returns HF_EINVAL if the path is not absolute,
 * HF_ELIMIT, HF_ENOMEM. */
int hf_exports_add(struct hf_exports *exports, const char *path);

/* Looks for the roots again if the last look is too old. */
void hf_exports_look(struct hf_exports *exports, int64_t now_ms);

/* Returns the list of mounts, which it opens if need be; NULL if there is none. A process that
 * gives up the right to read files must call this before. */
FILE *hf_exports_mounts(struct hf_exports *exports);

/* Returns the root's directory, which it opens if need be; -1 if it cannot be opened, or if another
 * directory has taken its place since the last look. */
int hf_root_open(struct hf_root *root);
void hf_exports_close(struct hf_exports *exports);

/* Tells how well a file system fits a handle: 0 not at all, 1 possibly, 2 the handle names it. */
unsigned hf_root_fits(const struct hf_root *root, const struct hf_fsid *fsid);

/* True if a path that the kernel named is below an export whose directory is still in its place. */
bool hf_exports_has(struct hf_exports *exports, const char *path);

/* Opens path (O_PATH) if it leads to the file that `file` describes and is inside an export;
 * follows no symbolic link. Returns -1 otherwise. */
int hf_exports_open(struct hf_exports *exports, const char *path, const struct stat *file);
bool hf_exports_holds(struct hf_exports *exports, const char *path, const struct stat *file);

/* Opens a path below a root without following a symbolic link; "" is the root itself. Mount points
 * are crossed only if `across` is set. */
int hf_root_open_below(struct hf_root *root, const char *relative, int flags, bool across);

#endif
