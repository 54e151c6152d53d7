/*
 * Selects rows of a list. A client is named by its id, or by any part of its name or address; a
 * file by any part of its handle in hex or of its path; an export by its name; an owner by its
 * svid, or by any part of its handle, in hex or as text. Letters match without regard to case. A
 * search finds a row by any of these. A path, on the other hand, is one file's, and must be equal.
 */
#ifndef HF_ADMIN_FILTER_H
#define HF_ADMIN_FILTER_H

#include <stdbool.h>

#include "admin/names.h"
#include "core/view.h"

enum { HF_FILTER_TEXT_MAX = 256 };

struct filter {
    char client[HF_FILTER_TEXT_MAX]; /* each "": any */
    char file[HF_FILTER_TEXT_MAX];
    char export[HF_FILTER_TEXT_MAX];
    char owner[HF_FILTER_TEXT_MAX];
    char status[HF_FILTER_TEXT_MAX]; /* of a notification */
    char search[HF_FILTER_TEXT_MAX]; /* in the client, the owner or, if the caller may see files */
    bool searches_files;             /* (ADM-09), the file */
    bool waited;                     /* only locks on files with waiters */
    struct hf_names *names;

    bool by_path;                  /* only the file with this path, which is */
    char path[HF_PATH_QUOTED_MAX]; /* as the operator wrote it */
    char quoted[HF_PATH_QUOTED_MAX];
    uint64_t unnamed; /* rows that were left out because their files have no name */

    bool any_file; /* every file passes for now: those that will be looked at need their names */
};

/* Only the file with this path; false if it is no absolute path, or too long. */
bool hf_filter_set_path(struct filter *filter, const char *path);

/* What a search looks at in a row. A row without a file or an owner has empty ones. */
struct filter_fields {
    uint64_t id; /* of the row; must be equal, as that of the client */
    uint64_t client_id;
    struct hf_bytes client_name;
    const struct hf_addr *client_addr;
    struct hf_bytes fh;
    const int32_t *svid;
    struct hf_bytes oh;
};

/* True if the text that is searched for is in one of the fields, or none is. */
bool hf_filter_search(const struct filter *filter, const struct filter_fields *fields);

bool hf_filter_client(const struct filter *filter, uint64_t id, struct hf_bytes name,
                      const struct hf_addr *addr);
bool hf_filter_file(struct filter *filter, struct hf_bytes export, struct hf_bytes fh);
bool hf_filter_owner(const struct filter *filter, int32_t svid, struct hf_bytes oh);

#endif
