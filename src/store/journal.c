#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/text.h"

#define NAME     "journal"
#define OLD_NAME "journal.old"
#define NEW_NAME "journal.new"

enum { SECTOR = 512 };

const struct hf_journal_layout hf_journal_single = {.side_bytes = HF_JOURNAL_BYTES, .n_sides = 1};
const struct hf_journal_layout hf_journal_flushed = {.side_bytes = HF_JOURNAL_BYTES, .n_sides = 2};
const struct hf_journal_layout hf_journal_unflushed = {.side_bytes = HF_JOURNAL_SIDE_BYTES_MAX,
                                                       .n_sides = 2};

/*
 * The last sector of the journal file. Versions of Holdfast that know no journal id do not read it.
 */
struct hf_journal_trailer {
    char magic[8];
    uint64_t id;
    _Atomic uint64_t taken; /* another daemon has begun to read this journal */
};

static const char MAGIC[] = "HFjourn1";

/* The header of each batch in the journal, in native byte order, like LMDB's file. */
struct header {
    uint64_t checksum; /* covers the rest of the header and the bytes of the batch */
    uint64_t index;
    uint32_t len;
    uint32_t n_ops;
};

static size_t padded(size_t len)
{
    return (len + SECTOR - 1) / SECTOR * SECTOR;
}

static uint64_t checksum(const struct hf_hash_key *key, const struct header *header,
                         const void *data)
{
    uint64_t sum = hf_siphash(key, data, header->len);

    sum = hf_siphash_u64(key, sum, header->index);
    return hf_siphash_u64(key, sum, (uint64_t)header->len << 32 | header->n_ops);
}

void hf_journal_init(struct hf_journal *journal)
{
    *journal = (struct hf_journal){.fd = -1};
}

void hf_journal_close(struct hf_journal *journal)
{
    if (journal->trailer)
        munmap((void *)journal->trailer, SECTOR);
    if (journal->fd >= 0)
        close(journal->fd);
    journal->trailer = NULL;
    journal->fd = -1;
}

static off_t records_end(const struct hf_journal_layout *layout)
{
    return (off_t)(layout->side_bytes * layout->n_sides);
}

static int write_zeros(int fd, const struct hf_journal_layout *layout)
{
    static const uint8_t ZEROS[HF_JOURNAL_SIDE_UNIT];

    for (off_t at = 0; at < records_end(layout); at += (off_t)sizeof(ZEROS)) {
        ssize_t n = pwrite(fd, ZEROS, sizeof(ZEROS), at);
        if (n != (ssize_t)sizeof(ZEROS))
            return n < 0 ? errno : ENOSPC;
    }
    return 0;
}

static int write_id(int fd, const struct hf_journal_layout *layout, uint64_t id)
{
    uint8_t sector[SECTOR] = {0};
    struct hf_journal_trailer trailer = {.id = id};
    ssize_t n;

    memcpy(trailer.magic, MAGIC, sizeof(trailer.magic));
    memcpy(sector, &trailer, sizeof(trailer));
    n = pwrite(fd, sector, sizeof(sector), records_end(layout));
    return n == (ssize_t)sizeof(sector) ? 0 : n < 0 ? errno : ENOSPC;
}

static int draw_id(uint64_t *out)
{
    do {
        if (getrandom(out, sizeof(*out), 0) != sizeof(*out))
            return EIO;
    } while (*out == 0);
    return 0;
}

int hf_journal_create(struct hf_journal *journal, int dir_fd,
                      const struct hf_journal_layout *layout)
{
    struct stat st = {0};
    uint64_t id;
    void *trailer;
    int error = draw_id(&id);
    int fd;

    HF_ASSERT(journal->fd < 0);
    if (error)
        return error;
    if (unlinkat(dir_fd, OLD_NAME, 0) < 0 && errno != ENOENT)
        return errno;
    fd = openat(dir_fd, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    error = write_zeros(fd, layout);
    if (!error)
        error = write_id(fd, layout, id);
    if (!error && (fsync(fd) < 0 || fstat(fd, &st) < 0 ||
                   renameat(dir_fd, NEW_NAME, dir_fd, NAME) < 0 || fsync(dir_fd) < 0))
        error = errno;
    trailer =
        error ? MAP_FAILED : mmap(NULL, SECTOR, PROT_READ, MAP_SHARED, fd, records_end(layout));
    if (!error && trailer == MAP_FAILED)
        error = errno;
    if (error) {
        close(fd);
        return error;
    }
    journal->trailer = trailer;
    journal->fd = fd;
    journal->id = id;
    journal->dev = st.st_dev;
    journal->ino = st.st_ino;
    journal->side_bytes = layout->side_bytes;
    journal->n_sides = (unsigned)layout->n_sides;
    return 0;
}

void hf_journal_restart(struct hf_journal *journal, const struct hf_hash_key *key)
{
    journal->key = *key;
    journal->side = 0;
    journal->first_index = 0;
    journal->end = 0;
    journal->index = 0;
}

void hf_journal_turn(struct hf_journal *journal)
{
    HF_ASSERT(journal->n_sides == 2);
    journal->side ^= 1;
    journal->first_index = journal->index;
    journal->end = 0;
}

bool hf_journal_has_room(const struct hf_journal *journal, const struct hf_batch *batch)
{
    return padded(sizeof(struct header) + hf_buf_len(&batch->buf)) <=
           journal->side_bytes - journal->end;
}

int hf_journal_append(struct hf_journal *journal, const struct hf_batch *batch)
{
    static const uint8_t ZEROS[SECTOR];
    struct hf_bytes bytes = hf_buf_view(&batch->buf);
    struct header header = {
        .index = journal->index, .len = (uint32_t)bytes.len, .n_ops = batch->n_ops};
    size_t len = sizeof(header) + bytes.len;
    struct iovec iov[] = {
        {&header, sizeof(header)},
        {(void *)bytes.data, bytes.len},
        {(void *)ZEROS, padded(len) - len},
    };
    off_t at = (off_t)(journal->side * journal->side_bytes + journal->end);
    ssize_t n;

    HF_ASSERT(hf_journal_has_room(journal, batch));
    header.checksum = checksum(&journal->key, &header, bytes.data);
    n = pwritev(journal->fd, iov, HF_COUNT_OF(iov), at);
    if (n != (ssize_t)padded(len))
        return n < 0 ? errno : EIO;
    journal->end += padded(len);
    journal->index++;
    return 0;
}

int hf_journal_sync(const struct hf_journal *journal)
{
    return fdatasync(journal->fd) < 0 ? errno : 0;
}

bool hf_journal_is_ours(const struct hf_journal *journal, const char *path)
{
    char name[PATH_MAX];
    struct stat st;

    hf_format(name, sizeof(name), "%s/" NAME, path);
    return stat(name, &st) == 0 && st.st_dev == journal->dev && st.st_ino == journal->ino;
}

/* ---- reading ---- */

/* The state of reading a journal, record by record. */
struct walk {
    const struct hf_journal_reading *reading;
    const uint8_t *file;
    uint64_t index; /* the number of the next record to read */
    size_t end[2];  /* for each side, the offset behind the last record that was read */
};

size_t hf_journal_batch_max(const struct hf_journal_layout *layout)
{
    size_t part = layout->side_bytes / 8;

    return part < HF_JOURNAL_BATCH_MAX ? part : HF_JOURNAL_BATCH_MAX;
}

/*
 * True if an append could have written this header as the next record or a later one. The file
 * contains bytes chosen by clients, and to check a record costs time in proportion to the length in
 * its header. So the length may not exceed that of the largest batch, and the number may not be
 * further ahead than the file has room for records.
 */
static bool is_plausible(const struct walk *walk, const struct header *header, size_t room)
{
    const struct hf_journal_layout *layout = &walk->reading->layout;

    return header->index >= walk->index &&
           header->index - walk->index < layout->n_sides * layout->side_bytes / SECTOR &&
           header->len <= room && header->len <= hf_journal_batch_max(layout) &&
           header->n_ops <= header->len / HF_OP_HEADER_SIZE;
}

/* Reads the header of a valid record at this offset whose number is the next one or a later one;
 * returns false if there is none. */
static bool find_record(const struct walk *walk, unsigned side, size_t at, struct header *out)
{
    const struct hf_journal_layout *layout = &walk->reading->layout;
    const uint8_t *record = walk->file + side * layout->side_bytes + at;
    size_t room = layout->side_bytes - at;

    if (room < sizeof(*out))
        return false;
    memcpy(out, record, sizeof(*out));
    return is_plausible(walk, out, room - sizeof(*out)) &&
           out->checksum == checksum(&walk->reading->key, out, record + sizeof(*out));
}

/* Reads the records of one side, from its start to the first record out of sequence. */
static int take_side(struct walk *walk, unsigned side, struct hf_batch *out)
{
    const uint8_t *start = walk->file + side * walk->reading->layout.side_bytes;
    size_t *at = &walk->end[side];
    struct header header;

    while (find_record(walk, side, *at, &header) && header.index == walk->index) {
        if (hf_buf_append(&out->buf, start + *at + sizeof(header), header.len) < 0)
            return ENOMEM;
        out->n_ops += header.n_ops;
        walk->index++;
        *at += padded(sizeof(header) + header.len);
    }
    return 0;
}

/* True if a valid record follows the end of the records that were read. It does not look inside
 * those, where clients could have placed bytes that look like a record. */
static bool has_later_record(const struct walk *walk)
{
    const struct hf_journal_layout *layout = &walk->reading->layout;
    struct header header;

    for (unsigned side = 0; side < layout->n_sides; side++) {
        for (size_t at = walk->end[side]; at < layout->side_bytes; at += SECTOR) {
            if (find_record(walk, side, at, &header))
                return true;
        }
    }
    return false;
}

/*
 * Reads all records from the first that LMDB does not have. The first invalid record is the end:
 * either none was written there, or the write was cut short before the batch was acknowledged. No
 * valid record can follow, because each record was complete before the next was begun. If one does
 * follow, the disk has lost data; or, if batches were not flushed, the host has crashed.
 */
static int take_records(const uint8_t *file, const struct hf_journal_reading *reading,
                        struct hf_batch *out)
{
    struct walk walk = {reading, file, reading->layout.first_index, {0}};
    unsigned n_sides = (unsigned)reading->layout.n_sides;
    struct header header;
    unsigned first = 0;
    int error = 0;

    /* Find the side that was begun first: it starts with the first record that counts. */
    while (first + 1 < n_sides &&
           !(find_record(&walk, first, 0, &header) && header.index == walk.index))
        first++;
    for (unsigned i = 0; i < n_sides && !error; i++)
        error = take_side(&walk, (first + i) % n_sides, out);
    if (!error && !reading->tail_lost && has_later_record(&walk))
        error = EBADMSG;
    return error;
}

/* Checks that the journal has the id that LMDB expects. A file without an id was not made for this
 * LMDB file. */
static int check_id(int fd, const struct hf_journal_reading *reading)
{
    struct hf_journal_trailer trailer;
    ssize_t n = pread(fd, &trailer, sizeof(trailer), records_end(&reading->layout));

    if (n < 0)
        return errno;
    if (n != (ssize_t)sizeof(trailer) || memcmp(trailer.magic, MAGIC, sizeof(trailer.magic)) != 0)
        return ESTALE;
    return trailer.id == reading->id ? 0 : ESTALE;
}

static int read_records(int fd, const struct hf_journal_reading *reading, struct hf_batch *out)
{
    size_t len = (size_t)records_end(&reading->layout);
    uint8_t *file = hf_calloc(out->buf.alloc, 1, len);
    ssize_t n;
    int error;

    if (!file)
        return ENOMEM;
    n = pread(fd, file, len, 0);
    /* a file may be shorter if no id is expected: it has another layout */
    if (n == (ssize_t)len || (n >= 0 && reading->id == 0))
        error = take_records(file, reading, out);
    else
        error = n < 0 ? errno : EBADMSG;
    hf_free(out->buf.alloc, file);
    return error;
}

bool hf_journal_is_taken(const struct hf_journal *journal)
{
    /* read only after the append: a daemon that takes the file marks it before it reads */
    return atomic_load(&journal->trailer->taken) != 0;
}

/* Marks the journal file as taken, for a daemon that may still write to it. A file of another size
 * has no trailer, and no daemon looks for a mark there. */
static int mark_as_taken(int dir_fd)
{
    static const uint64_t taken = 1;
    int fd = openat(dir_fd, OLD_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    off_t at;
    struct stat st;
    int error = 0;

    if (fd < 0)
        return errno == ENOENT ? 0 : errno;
    if (fstat(fd, &st) < 0)
        error = errno;
    at = st.st_size - SECTOR + (off_t)offsetof(struct hf_journal_trailer, taken);
    if (!error && st.st_size % HF_JOURNAL_SIDE_UNIT == SECTOR &&
        pwrite(fd, &taken, sizeof(taken), at) != (ssize_t)sizeof(taken))
        error = errno;
    close(fd);
    return error;
}

int hf_journal_move_aside(int dir_fd)
{
    int error;

    /* Only one of journal and journal.old can hold records that still count; lmdb.c says why. */
    if (renameat(dir_fd, NAME, dir_fd, OLD_NAME) < 0 && errno != ENOENT)
        return errno;
    error = mark_as_taken(dir_fd);
    if (!error && fsync(dir_fd) < 0)
        error = errno;
    return error;
}

static int open_either(int dir_fd)
{
    int fd = openat(dir_fd, NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 && errno == ENOENT ? openat(dir_fd, OLD_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
                                     : fd;
}

bool hf_journal_exists(int dir_fd)
{
    struct stat st;

    return fstatat(dir_fd, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
           fstatat(dir_fd, OLD_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int hf_journal_read(int dir_fd, const struct hf_journal_reading *reading, struct hf_batch *out)
{
    int fd = open_either(dir_fd);
    int error;

    if (fd < 0)
        return errno == ENOENT && reading->id == 0 ? 0 : errno;
    error = read_records(fd, reading, out);
    if (!error && reading->id != 0)
        error = check_id(fd, reading);
    close(fd);
    return error;
}
