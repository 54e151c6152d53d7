#include "admin/page.h"

#include "admin/private.h"

enum MHD_Result hf_admin_on_file(struct request *request)
{
    for (size_t i = 0; i < hf_page_files_n; i++) {
        const struct page_file *file = &hf_page_files[i];

        if (strcmp(file->path, request->path) == 0)
            return hf_admin_reply_response(
                request, MHD_HTTP_OK, file->type,
                MHD_create_response_from_buffer(file->len, (void *)(uintptr_t)file->data,
                                                MHD_RESPMEM_PERSISTENT));
    }
    return hf_admin_reply_problem(request, MHD_HTTP_NOT_FOUND, "The page has no such file.");
}
