/* Finds the path of a file by its handle. A path is given only if opening it again leads to the
 * same file, inside an export. */
#ifndef HF_HANDLES_RESOLVE_H
#define HF_HANDLES_RESOLVE_H

#include "handles/exports.h"
#include "handles/places.h"
#include "handles/walk.h"

/* How many directory entries a search for one handle may look at. */
enum { HF_DESCENT_ENTRIES_MAX = 65536 };

enum hf_answer {
    HF_ANSWER_NAMED,
    HF_ANSWER_DELETED, /* the file exists, but has no name any more */
    HF_ANSWER_UNKNOWN, /* the exports have no such file, or the kind of handle is not known */
    HF_ANSWER_LATER,   /* the file is still being searched for */
};

struct hf_resolver {
    struct hf_exports exports;
    struct hf_places places;
    struct hf_walk walk;
};

int hf_resolver_init(struct hf_resolver *resolver, uint64_t search_max);
void hf_resolver_free(struct hf_resolver *resolver);

/* The file itself, opened (O_PATH), proved to be inside an export, and known by this handle. */
struct hf_found {
    int fd; /* the descriptor of the file, which the caller closes */
    struct stat file;
    uint64_t generation; /* the inode's generation; 0 where handles of the file system have none */
};

/* Finds the file of a handle; HF_ANSWER_NAMED means that it was found. A file needs no name if all
 * of its file system is exported. */
enum hf_answer hf_resolve_file(struct hf_resolver *resolver, int64_t now_ms, struct hf_bytes bytes,
                               struct hf_found *found);

/* Finds the path of a handle's file. After a batch of calls the caller closes the exports
 * (hf_exports_close()). */
enum hf_answer hf_resolve(struct hf_resolver *resolver, int64_t now_ms, struct hf_bytes bytes,
                          char path[HF_PATH_BYTES_MAX]);

/* descent.c: searches below a root by the hashes in a handle of unfs3. */
bool hf_descend(struct hf_root *root, const struct hf_handle *handle, struct stat *file,
                char path[HF_PATH_BYTES_MAX]);

#endif
