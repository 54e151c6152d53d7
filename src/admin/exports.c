/*
 * Shows the exports of the keeper (COH-07), and what the kernel holds open in them for NFSv3
 * clients; and lets a directory go, so that its file system can be unmounted. The keeper is asked
 * for all this, so each answer waits for the keeper's (wait.c).
 */
#include <string.h>

#include "admin/private.h"
#include "base/error.h"
#include "base/text.h"

static enum MHD_Result begin(struct request *request, enum hf_admin_exports_act act,
                             const char *path)
{
    enum MHD_Result result;
    int rv = hf_admin_reply_when_exported(request, act, path, &result);

    if (rv == 0)
        return result;
    if (rv == HF_EINVAL)
        return hf_admin_reply_problem(request, MHD_HTTP_BAD_REQUEST,
                                      "The path is absolute, and not long.");
    if (rv == HF_EUNAVAIL)
        return hf_admin_reply_problem(
            request, MHD_HTTP_SERVICE_UNAVAILABLE,
            "No keeper is connected (keeper.socket): the kernel holds no file.");
    return hf_admin_reply_error(request, rv, "");
}

enum MHD_Result hf_admin_on_exports(struct request *request)
{
    return begin(request, HF_ADMIN_EXPORTS_LIST, NULL);
}

static enum MHD_Result change(struct request *request, enum hf_admin_exports_act act,
                              const char *what)
{
    struct hf_bytes body = hf_buf_view(&request->body);
    json_t *json = json_loadb((const char *)body.data, body.len, JSON_REJECT_DUPLICATES, NULL);
    const char *path = json_string_value(json_object_get(json, "path"));
    enum MHD_Result result;

    if (!path) {
        json_decref(json);
        return hf_admin_reply_problem(request, MHD_HTTP_BAD_REQUEST,
                                      "The body is {\"path\": \"/DIRECTORY\"}.");
    }
    hf_format(request->of_path, sizeof(request->of_path), "%s", path);
    request->change = what;
    result = begin(request, act, path);
    json_decref(json);
    return result;
}

enum MHD_Result hf_admin_on_release_export(struct request *request)
{
    return change(request, HF_ADMIN_EXPORTS_RELEASE, "release export");
}

enum MHD_Result hf_admin_on_take_back_export(struct request *request)
{
    return change(request, HF_ADMIN_EXPORTS_TAKE_BACK, "take export back");
}
