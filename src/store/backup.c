#include "store/backup.h"

#include <endian.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "store/backend.h"
#include "store/lease.h"

enum {
    VERSION = 1,
    /* a restore advances the epoch by more than a server restarts between a backup and its use */
    EPOCHS_AHEAD = 1024,
    HEADER_BYTES = 8 + 4 + 8,
    TRAILER_BYTES = 4 + 8 + 8,
};

static const char MAGIC[] = "HFbackup";

static uint64_t checksum(const uint8_t *data, size_t len)
{
    static const struct hf_hash_key key = {0x686f6c6466617374ULL, 0x6261636b7570ULL};

    return hf_siphash(&key, data, len);
}

/* ---- writing ---- */

static int put_u32(struct hf_buf *out, uint32_t number)
{
    number = htobe32(number);
    return hf_buf_append(out, &number, sizeof(number));
}

static int put_u64(struct hf_buf *out, uint64_t number)
{
    number = htobe64(number);
    return hf_buf_append(out, &number, sizeof(number));
}

struct writing {
    struct hf_buf *out;
    uint64_t count;
    /* The backup stops when this becomes true; NULL: the backup cannot be cancelled. */
    const _Atomic bool *cancelled;
};

static int write_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct writing *writing = ctx;
    int rv;

    /* A backup leaves out waiting requests and share reservations: clients ask again after a
     * restore. */
    if (kind == HF_RECORD_LOCK && !hf_record_is_held(record))
        return 0;
    rv = writing->cancelled && *writing->cancelled ? HF_ECANCELED
                                                   : put_u32(writing->out, (uint32_t)record.len);

    if (rv == 0)
        rv = hf_buf_append(writing->out, record.data, record.len);
    writing->count++;
    return rv;
}

static int begin_file(int64_t wall_ms, struct hf_buf *out)
{
    int rv = hf_buf_append(out, MAGIC, 8);

    if (rv == 0)
        rv = put_u32(out, VERSION);
    return rv < 0 ? rv : put_u64(out, (uint64_t)wall_ms);
}

static int end_file(const struct writing *writing, size_t start)
{
    struct hf_buf *out = writing->out;
    struct hf_bytes all;
    int rv = put_u32(out, 0);

    if (rv == 0)
        rv = put_u64(out, writing->count);
    if (rv < 0)
        return rv;
    all = hf_buf_view(out);
    return put_u64(out, checksum(all.data + start, all.len - start));
}

int hf_backup_write(struct hf_store *store, int64_t wall_ms, struct hf_buf *out)
{
    struct writing writing = {.out = out};
    size_t start = hf_buf_len(out);
    int rv = begin_file(wall_ms, out);

    if (rv == 0)
        rv = hf_store_load(store, write_record, &writing);
    return rv < 0 ? rv : end_file(&writing, start);
}

int hf_backup_write_aside(const struct hf_store_config *config, int64_t wall_ms,
                          const _Atomic bool *cancelled, struct hf_buf *out,
                          char error[HF_STORE_ERROR_MAX])
{
    struct writing writing = {.out = out, .cancelled = cancelled};
    const struct hf_store_loading to = {.record = write_record, .ctx = &writing};
    size_t start = hf_buf_len(out);
    int rv = begin_file(wall_ms, out);

    error[0] = '\0';
    if (rv == 0)
        rv = hf_store_load_owned(config, NULL, &to, error);
    return rv < 0 ? rv : end_file(&writing, start);
}

/* ---- reading ---- */

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t number;

    memcpy(&number, p, sizeof(number));
    return be32toh(number);
}

static uint64_t get_u64(const uint8_t *p)
{
    uint64_t number;

    memcpy(&number, p, sizeof(number));
    return be64toh(number);
}

static int check_frame(struct hf_bytes file, const char **reason)
{
    *reason = "it is not a backup of Holdfast";
    if (file.len < HEADER_BYTES + TRAILER_BYTES || memcmp(file.data, MAGIC, 8) != 0)
        return HF_EFORMAT;
    *reason = "a newer Holdfast made it";
    if (get_u32(file.data + 8) > VERSION)
        return HF_EVERSION;
    *reason = "it is damaged or cut short: its checksum is wrong";
    if (get_u64(file.data + file.len - 8) != checksum(file.data, file.len - 8))
        return HF_EFORMAT;
    return 0;
}

static int take_record(struct hf_bytes record, struct hf_batch *records,
                       struct hf_backup_content *out)
{
    switch (record.data[0]) {
    case HF_RECORD_SERVER:
        return hf_record_decode_server(record, &out->server);
    case HF_RECORD_CLIENT:
        out->clients++;
        break;
    case HF_RECORD_LOCK:
        out->locks++;
        break;
    default:
        return HF_EFORMAT;
    }
    out->digest += hf_record_hash(record);
    return hf_batch_put_encoded(records, (enum hf_record_kind)record.data[0], record);
}

int hf_backup_parse(struct hf_bytes file, struct hf_batch *records, struct hf_backup_content *out,
                    const char **reason)
{
    const uint8_t *p;
    const uint8_t *end;
    uint64_t count = 0;
    uint32_t len;
    int rv = check_frame(file, reason);

    if (rv < 0)
        return rv;
    p = file.data + HEADER_BYTES;
    end = file.data + file.len - TRAILER_BYTES;
    *out = (struct hf_backup_content){.made_at_ms = (int64_t)get_u64(file.data + 12)};
    *reason = "a record in it does not decode";
    for (; rv == 0 && (len = get_u32(p)) != 0; count++) {
        if ((size_t)(end - p) < 4 + (size_t)len)
            return HF_EFORMAT;
        rv = take_record(hf_bytes(p + 4, len), records, out);
        p += 4 + len;
    }
    if (rv == HF_ENOMEM)
        *reason = "out of memory";
    if (rv == 0 && (p != end || get_u64(p + 4) != count))
        rv = HF_EFORMAT;
    return rv;
}

/* ---- restoring ---- */

struct found {
    uint64_t records; /* how many clients and locks the open store holds */
    uint64_t epoch;
};

static int look(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct found *found = ctx;
    struct hf_record_server server;
    int rv = 0;

    if (kind == HF_RECORD_SERVER) {
        rv = hf_record_decode_server(record, &server);
        if (rv == 0)
            found->epoch = server.epoch;
    } else {
        found->records++;
    }
    return rv;
}

int hf_backup_restore(struct hf_store *store, const struct hf_backup_content *content,
                      struct hf_batch *records)
{
    struct found found = {0};
    struct hf_record_server server = content->server;
    int rv = hf_store_load(store, look, &found);

    if (rv < 0)
        return rv;
    if (found.records > 0)
        return hf_store_fail(store, HF_EEXIST,
                             "the store is not empty: it holds %llu clients and locks; move its "
                             "files (or its tables) away, or name another store, and try again",
                             (unsigned long long)found.records);
    if (found.epoch > server.epoch)
        server.epoch = found.epoch;
    server.epoch += EPOCHS_AHEAD;
    server.clean = false;
    server.locks_unknown = true; /* a backup does not know the locks that were granted after it */
    if (server.continuity != HF_CONTINUITY_NONE)
        server.continuity = HF_CONTINUITY_LOST;
    rv = hf_batch_put_server(records, &server);
    if (rv < 0)
        return hf_store_fail(store, rv, "out of memory");
    return hf_store_apply(store, records);
}
