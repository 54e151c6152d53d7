/*
 * The exports: directories whose files may be named, and nothing outside them. A root is an export,
 * or a file system that is mounted below one, with what tells it from others in a file handle.
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
    char *path; /* without symbolic links; "/" or without a slash at its end */
    bool is_export;
    bool is_whole;    /* all of a file system: every file of that is inside */
    bool from_top;    /* its mount shows a file system from its top, so paths in it are true */
    size_t mount_len; /* of the path of that mount */
    int fd;           /* -1: not open */
    dev_t device;
    ino_t inode; /* 0: not looked at yet */
    uint32_t statfs[2];
    uint8_t uuid[16];
    bool has_uuid;
};

struct hf_exports {
    char *configured[HF_EXPORTS_MAX];
    size_t n_configured;
    struct hf_root roots[HF_ROOTS_MAX]; /* the exports that are there first */
    size_t n_roots;
    int64_t looked_ms; /* when the roots were looked for; -1: never */
    FILE *mounts;      /* /proc/self/mountinfo, open for as long as the process lives */
};

void hf_exports_init(struct hf_exports *exports);
void hf_exports_free(struct hf_exports *exports);

/* HF_EINVAL: not an absolute path; HF_ELIMIT, HF_ENOMEM. It need not be there yet. */
int hf_exports_add(struct hf_exports *exports, const char *path);

/* Looks for the roots again if the last look is not fresh. */
void hf_exports_look(struct hf_exports *exports, int64_t now_ms);

/* The list of mounts, opened if need be: a process that gives up the right to read files calls this
 * before. NULL if there is none. */
FILE *hf_exports_mounts(struct hf_exports *exports);

/* The root's directory, opened if need be; -1 if it cannot be, or if another directory has taken
 * its place since the last look. */
int hf_root_open(struct hf_root *root);
void hf_exports_close(struct hf_exports *exports);

/* How well a file system fits a handle: 0 not at all, 1 it may be, 2 it is named. */
unsigned hf_root_fits(const struct hf_root *root, const struct hf_fsid *fsid);

/* True if a path that the kernel has told is below an export whose directory is still in its place.
 */
bool hf_exports_has(struct hf_exports *exports, const char *path);

/* Opens path (O_PATH), if that is this file and inside an export; follows no symbolic link. -1. */
int hf_exports_open(struct hf_exports *exports, const char *path, const struct stat *file);
bool hf_exports_holds(struct hf_exports *exports, const char *path, const struct stat *file);

/* Opens a path below a root without following a symbolic link; "" is the root itself. Across mount
 * points only if told so. */
int hf_root_open_below(struct hf_root *root, const char *relative, int flags, bool across);

#endif
