/*
 * The files that the keeper has open, with one open file description for each handle, and what is
 * held in each file (ranges.h). The kernel knows locks by their description, so locks through two
 * handles of one file exclude each other as they should.
 *
 * A description is opened for reading. The first exclusive lock needs a description that may write,
 * which takes over the shared locks before the first one is closed. While a file is open for
 * writing, no program can be executed from it and no read lease given, so only files that were
 * locked exclusively are open for writing. A file without a lock and without a wait is closed soon,
 * because an open file keeps its file system from being unmounted; but not at once, because a file
 * that is locked again and again would be opened each time, which takes eight times as long as its
 * lock.
 *
 * A file is opened only if it is inside the exports, regular, not below a path that the operator
 * has let go, and on a file system whose locks are seen by other programs (probe.h).
 */
#ifndef HF_KEEPER_FILES_H
#define HF_KEEPER_FILES_H

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "handles/resolve.h"
#include "keeper/probe.h"
#include "keeper/ranges.h"

enum {
    HF_LET_GO_MAX = 16,
    HF_FILES_IDLE_MS = 20, /* how long a file without locks stays open */
    HF_FILES_IDLE_MAX = 256,
};

struct hf_keeper_file {
    struct hf_map_node node;
    /*
     * Links the file into the list of all files: those with a copy in systemd come first (store.h).
     */
    struct hf_list link;
    /* Links the file into the list of files that had no lock and no wait when last looked at. */
    struct hf_list idle;
    /* The waits for this file (struct hf_wait), in the order in which they came. */
    struct hf_list waits;
    struct hf_ranges ranges;
    struct hf_keeper_identity identity;
    int64_t since_ms; /* when the file was opened */
    int64_t idle_ms;  /* when the file was put into the list of idle files */
    int fd;
    bool writable;
    unsigned pins; /* while this is not 0 the file stays open although nothing is held in it */
    bool stored;   /* systemd has a copy of the file's description (store.h) */
    uint8_t handle_len;
    uint8_t handle[HF_KEEPER_HANDLE_MAX];
};

/* A directory that the operator has let go; and its file system, if the directory is all of one. */
struct hf_let_go {
    char *path;
    dev_t device; /* the file system that was let go; 0: only what is below path */
};

struct hf_keeper_files {
    struct hf_resolver resolver;
    struct hf_map map; /* the open files by their handles */
    struct hf_list all;
    struct hf_list idle; /* the idle files; the first has been idle for longest */
    size_t n_idle;
    int64_t now_ms;    /* the time of this turn, which the caller sets */
    size_t count, max; /* how many files are open, and may be open; the caller sets max */
    uint64_t n_spans;
    uint32_t ranges_max; /* how many ranges one file may have; the caller sets this */
    struct hf_hash_key key;
    struct hf_probes probes;
    struct hf_let_go let_go[HF_LET_GO_MAX];
    size_t n_let_go;
};

int hf_keeper_files_init(struct hf_keeper_files *files);
void hf_keeper_files_free(struct hf_keeper_files *files);

/* Returns the file of this handle if it is open, else NULL. */
struct hf_keeper_file *hf_keeper_files_find(struct hf_keeper_files *files, struct hf_bytes handle);

/*
 * Returns the file, opened for reading or, for mode EXCLUSIVE, for writing; a file that is open and
 * used stays as it is. The caller calls hf_keeper_files_done() when it has finished with the file.
 */
enum hf_keeper_status hf_keeper_files_get(struct hf_keeper_files *files, int64_t now_ms,
                                          struct hf_bytes handle, enum hf_keeper_mode mode,
                                          struct hf_keeper_file **out);

/* Takes over a description (fd) that an earlier process opened. Returns NULL without memory. The
 * caller must find out what is held in the file. */
struct hf_keeper_file *hf_keeper_files_adopt(struct hf_keeper_files *files, int64_t now_ms,
                                             struct hf_bytes handle, int fd, bool writable);

/* Finds the identity of a file without keeping it open. */
enum hf_keeper_status hf_keeper_files_identify(struct hf_keeper_files *files, int64_t now_ms,
                                               struct hf_bytes handle,
                                               struct hf_keeper_identity *out);

/* Makes sure that exclusive locks can be taken in the file. No thread may wait in it. */
enum hf_keeper_status hf_keeper_files_make_writable(struct hf_keeper_files *files,
                                                    struct hf_keeper_file *file);

/*
 * Must be called when a caller has finished with a file. If nothing is held in the file and nothing
 * waits for it, hf_keeper_files_step() closes it a little later; that function returns how long the
 * loop may sleep, -1: for ever.
 */
void hf_keeper_files_done(struct hf_keeper_files *files, struct hf_keeper_file *file);
int hf_keeper_files_step(struct hf_keeper_files *files);

/* Closes the file, whatever is held in it. No thread may wait in it. */
void hf_keeper_files_close(struct hf_keeper_files *files, struct hf_keeper_file *file);

/* Opens no file below path from now on. Returns HF_ELIMIT, HF_ENOMEM; 0 also if the path is in the
 * list already. */
int hf_keeper_files_let_go(struct hf_keeper_files *files, const char *path);
void hf_keeper_files_take_back(struct hf_keeper_files *files, const char *path);

/* Counts the files and ranges that are open below path. */
void hf_keeper_files_count_below(const struct hf_keeper_files *files, const char *path,
                                 uint64_t *n_files, uint64_t *n_ranges);

/* True if the operator has let go path, or a directory above it. */
bool hf_keeper_files_has_let_go(const struct hf_keeper_files *files, const char *path);

/* True if the operator has let the file go. */
bool hf_keeper_files_is_let_go(const struct hf_keeper_files *files,
                               const struct hf_keeper_file *file);

#endif
