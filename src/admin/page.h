/* Files that are built into the program by embed.py: the page and the description of the API. */
#ifndef HF_ADMIN_PAGE_H
#define HF_ADMIN_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct page_file {
    const char *path; /* the path under which the file is served */
    const char *type;
    const uint8_t *data;
    size_t len;
};

extern const struct page_file hf_page_files[];
extern const size_t hf_page_files_n;

#endif
