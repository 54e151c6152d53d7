#include "store/lmdb_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "store/backend.h"
#include "store/lmdb_env.h"

#define LOST_NAME "journal.lost"

/* Reads a value of fixed size from the state tree; a missing value reads as zeros. */
static int get(MDB_txn *txn, MDB_dbi state, uint64_t which, void *out, size_t len)
{
    MDB_val key = hf_lmdb_number(&which);
    MDB_val value;
    int error = mdb_get(txn, state, &key, &value);

    memset(out, 0, len);
    if (error)
        return error == MDB_NOTFOUND ? 0 : error;
    if (value.mv_size != len)
        return MDB_CORRUPTED;
    memcpy(out, value.mv_data, len);
    return 0;
}

static int put(MDB_txn *txn, MDB_dbi state, uint64_t which, const void *data, size_t len)
{
    MDB_val key = hf_lmdb_number(&which);
    MDB_val value = {len, (void *)data};

    return mdb_put(txn, state, &key, &value, 0);
}

/* The value stored under HF_LMDB_PARTS or, where the journal has two sides, under HF_LMDB_SIDES. */
struct stored_parts {
    struct hf_hash_key journal_key;
    uint64_t journal_id;
};

struct stored_sides {
    struct hf_journal_layout layout;
    uint8_t boot_id[HF_BOOT_ID_SIZE];
};

/* Checks that a layout read from disk has possible numbers. */
static bool is_sound(const struct hf_journal_layout *layout)
{
    return layout->n_sides == 2 && layout->side_bytes % HF_JOURNAL_SIDE_UNIT == 0 &&
           layout->side_bytes > 0 && layout->side_bytes <= HF_JOURNAL_SIDE_BYTES_MAX;
}

static int read_sides(MDB_txn *txn, MDB_dbi state, struct hf_lmdb_parts *out)
{
    struct stored_sides sides;
    int error = get(txn, state, HF_LMDB_SIDES, &sides, sizeof(sides));

    out->layout = hf_journal_single;
    if (error || sides.layout.n_sides == 0)
        return error;
    if (!is_sound(&sides.layout))
        return MDB_CORRUPTED;
    out->layout = sides.layout;
    memcpy(out->boot_id, sides.boot_id, sizeof(out->boot_id));
    return 0;
}

bool hf_lmdb_parts_is_copy(const struct hf_lmdb_parts *parts, const struct hf_lmdb_dir *dir)
{
    const struct hf_lmdb_home *was = &parts->home;
    const struct hf_lmdb_home *is = &dir->home;

    if (was->inode == 0)
        return false;
    return was->inode != is->inode ||
           (was->born_ns != 0 && is->born_ns != 0 && was->born_ns != is->born_ns);
}

int hf_lmdb_parts_read(MDB_txn *txn, MDB_dbi state, struct hf_lmdb_parts *out)
{
    struct hf_hash_key key;
    struct stored_parts parts;
    int error = get(txn, state, HF_LMDB_JOURNAL_KEY, &key, sizeof(key));

    if (!error)
        error = get(txn, state, HF_LMDB_PARTS, &parts, sizeof(parts));
    if (error)
        return error;
    *out = (struct hf_lmdb_parts){.journal_key = key};
    if (memcmp(&parts.journal_key, &key, sizeof(key)) == 0)
        out->journal_id = parts.journal_id;
    error = get(txn, state, HF_LMDB_HOME, &out->home, sizeof(out->home));
    return error ? error : read_sides(txn, state, out);
}

static int write_sides(MDB_txn *txn, MDB_dbi state, const struct hf_lmdb_parts *parts)
{
    struct stored_sides sides = {.layout = parts->layout};
    uint64_t which = HF_LMDB_SIDES;
    MDB_val key = hf_lmdb_number(&which);
    int error;

    if (parts->layout.n_sides == 1) {
        error = mdb_del(txn, state, &key, NULL);
        return error == MDB_NOTFOUND ? 0 : error;
    }
    memcpy(sides.boot_id, parts->boot_id, sizeof(sides.boot_id));
    return put(txn, state, HF_LMDB_SIDES, &sides, sizeof(sides));
}

int hf_lmdb_parts_write(MDB_txn *txn, MDB_dbi state, const struct hf_lmdb_parts *parts)
{
    struct stored_parts stored = {parts->journal_key, parts->journal_id};
    uint64_t format = parts->layout.n_sides == 1 ? HF_LMDB_FORMAT_PLAIN : HF_LMDB_FORMAT_SIDES;
    int error =
        put(txn, state, HF_LMDB_JOURNAL_KEY, &stored.journal_key, sizeof(stored.journal_key));

    if (!error)
        error = put(txn, state, HF_LMDB_PARTS, &stored, sizeof(stored));
    if (!error)
        error = put(txn, state, HF_LMDB_FORMAT, &format, sizeof(format));
    if (!error)
        error = put(txn, state, HF_LMDB_HOME, &parts->home, sizeof(parts->home));
    return error ? error : write_sides(txn, state, parts);
}

struct hf_journal_reading hf_lmdb_parts_reading(const struct hf_lmdb_parts *parts,
                                                const uint8_t boot_id[HF_BOOT_ID_SIZE])
{
    static const uint8_t flushed[HF_BOOT_ID_SIZE];

    return (struct hf_journal_reading){
        .key = parts->journal_key,
        .id = parts->journal_id,
        .layout = parts->layout,
        .tail_lost = memcmp(parts->boot_id, flushed, sizeof(flushed)) != 0 &&
                     memcmp(parts->boot_id, boot_id, sizeof(parts->boot_id)) != 0,
    };
}

int hf_lmdb_parts_check_new(struct hf_store *store, const struct hf_lmdb_dir *dir)
{
    if (!hf_journal_exists(dir->fd))
        return 0;
    return hf_store_fail(store, HF_EFORMAT,
                         "%s/data.mdb is missing, but the journal that belongs to it is there; "
                         "nothing was changed; restore the directory from a backup, or move the "
                         "journal away, too, to start empty",
                         dir->path);
}

int hf_lmdb_parts_fail(struct hf_store *store, const struct hf_lmdb_dir *dir, int error)
{
    const char *what;

    switch (error) {
    case ENOENT:
        what = "journal is missing, which held the newest changes";
        break;
    case ESTALE:
        what = "journal does not belong to data.mdb beside it; one of them comes "
               "from elsewhere";
        break;
    case EBADMSG:
        what = "journal (or journal.old) is damaged";
        break;
    default:
        return hf_lmdb_dir_fail(store, dir, error, "cannot read the journal");
    }
    return hf_store_fail(store, HF_EFORMAT,
                         "%s/%s; restore the directory from a backup; or, to go on with what is "
                         "in data.mdb, touch %s/" LOST_NAME
                         " and start again; or move all files away to start empty",
                         dir->path, what, dir->path);
}

bool hf_lmdb_parts_loss_accepted(const struct hf_lmdb_dir *dir, int error)
{
    struct stat st;

    if (error != ENOENT && error != ESTALE && error != EBADMSG)
        return false;
    if (fstatat(dir->fd, LOST_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    hf_log(HF_LOG_WARN, "going on without the journal: its changes are lost",
           HF_STR("path", dir->path), HF_STR("reason", LOST_NAME " is there"));
    return true;
}

void hf_lmdb_parts_forget_loss(const struct hf_lmdb_dir *dir)
{
    (void)unlinkat(dir->fd, LOST_NAME, 0);
}
