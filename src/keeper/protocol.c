#include "keeper/protocol.h"

#include <string.h>

#include "base/assert.h"

const char *hf_keeper_status_text(unsigned status)
{
    static const char *const TEXTS[] = {
#define X(name, text) text,
        HF_KEEPER_STATUSES(X)
#undef X
    };

    return status < HF_KEEPER_STATUS_COUNT ? TEXTS[status] : "an unknown status";
}

const char *hf_keeper_status_name(unsigned status)
{
    static const char *const NAMES[] = {
        [HF_KEEPER_OK] = "ok",
        [HF_KEEPER_CONFLICT] = "conflict",
        [HF_KEEPER_CANCELLED] = "cancelled",
        [HF_KEEPER_NOT_YET] = "not_yet",
        [HF_KEEPER_UNKNOWN_HANDLE] = "unknown_handle",
        [HF_KEEPER_STALE] = "stale",
        [HF_KEEPER_NOT_IN_EXPORT] = "not_in_export",
        [HF_KEEPER_NOT_A_FILE] = "not_a_file",
        [HF_KEEPER_READ_ONLY] = "read_only",
        [HF_KEEPER_EXECUTED] = "executed",
        [HF_KEEPER_FOREIGN] = "foreign",
        [HF_KEEPER_TOO_MANY_RANGES] = "too_many_ranges",
        [HF_KEEPER_TOO_MANY_FILES] = "too_many_files",
        [HF_KEEPER_TOO_MANY_WAITS] = "too_many_waits",
        [HF_KEEPER_WAS_LET_GO] = "was_let_go",
        [HF_KEEPER_LEASE_OVER] = "lease_over",
        [HF_KEEPER_NO_MEMORY] = "no_memory",
        [HF_KEEPER_FAILED] = "failed",
    };

    return status < HF_KEEPER_STATUS_COUNT ? NAMES[status] : "unknown";
}

size_t hf_keeper_record_size(uint32_t message)
{
    static const size_t SIZES[] = {
        [HF_KEEPER_HELLO] = sizeof(struct hf_keeper_hello),
        [HF_KEEPER_OPS] = sizeof(struct hf_keeper_op),
        [HF_KEEPER_RESULTS] = sizeof(struct hf_keeper_result),
        [HF_KEEPER_LIST] = 0,
        [HF_KEEPER_HELD] = sizeof(struct hf_keeper_op),
        [HF_KEEPER_PATH] = sizeof(struct hf_keeper_path),
        [HF_KEEPER_EXPORTS] = sizeof(struct hf_keeper_export),
    };

    return message < HF_COUNT_OF(SIZES) ? SIZES[message] : 0;
}

static bool is_count(const struct hf_keeper_header *header, bool from_keeper)
{
    switch (header->message) {
    case HF_KEEPER_HELLO:
    case HF_KEEPER_PATH:
        return header->count == 1;
    case HF_KEEPER_LIST:
        return header->count == 0;
    case HF_KEEPER_HELD:
        return header->count <= HF_KEEPER_OPS_MAX;
    case HF_KEEPER_EXPORTS:
        return header->count <= from_keeper;
    default:
        return header->count > 0 && header->count <= HF_KEEPER_OPS_MAX;
    }
}

static bool is_from(uint32_t message, bool from_keeper)
{
    switch (message) {
    case HF_KEEPER_HELLO:
    case HF_KEEPER_EXPORTS:
        return true;
    case HF_KEEPER_RESULTS:
    case HF_KEEPER_HELD:
        return from_keeper;
    case HF_KEEPER_OPS:
    case HF_KEEPER_LIST:
    case HF_KEEPER_PATH:
        return !from_keeper;
    default:
        return false;
    }
}

static bool is_op(const struct hf_keeper_op *op)
{
    bool has_file = op->kind != HF_KEEPER_CANCEL && op->kind != HF_KEEPER_RELEASE_ALL &&
                    op->kind != HF_KEEPER_RENEW;
    bool has_mode =
        op->kind == HF_KEEPER_CLAIM || op->kind == HF_KEEPER_TEST || op->kind == HF_KEEPER_WAIT;

    return op->kind < HF_KEEPER_KINDS && op->mode <= HF_KEEPER_EXCLUSIVE &&
           op->handle_len <= HF_KEEPER_HANDLE_MAX && (op->handle_len > 0) == has_file &&
           (!has_mode || op->mode != HF_KEEPER_NONE);
}

static bool is_record(uint32_t message, const void *record)
{
    const struct hf_keeper_result *result = record;
    const struct hf_keeper_path *path = record;
    const struct hf_keeper_export *export = record;

    switch (message) {
    case HF_KEEPER_OPS:
        return is_op(record);
    case HF_KEEPER_HELD:
        return is_op(record) && ((const struct hf_keeper_op *)record)->kind == HF_KEEPER_SET;
    case HF_KEEPER_RESULTS:
        return result->status < HF_KEEPER_STATUS_COUNT && result->mode <= HF_KEEPER_EXCLUSIVE;
    case HF_KEEPER_PATH:
        return path->kind <= HF_KEEPER_TAKE_BACK && path->path[0] == '/' &&
               memchr(path->path, '\0', sizeof(path->path));
    case HF_KEEPER_EXPORTS:
        return export->let_go <= 1 && memchr(export->path, '\0', sizeof(export->path));
    default:
        return true;
    }
}

const void *hf_keeper_check(const void *message, size_t len, bool from_keeper,
                            struct hf_keeper_header *header)
{
    const uint8_t *records = (const uint8_t *)message + sizeof(*header);
    size_t size;

    if (len < sizeof(*header))
        return NULL;
    memcpy(header, message, sizeof(*header));
    size = hf_keeper_record_size(header->message);
    if (!is_from(header->message, from_keeper) || !is_count(header, from_keeper) ||
        len != sizeof(*header) + header->count * size)
        return NULL;
    for (uint32_t i = 0; i < header->count; i++) {
        if (!is_record(header->message, records + i * size))
            return NULL;
    }
    return records;
}
