/*
 * Faults of LMDB's file and its disk (STO-02): each gives an error that an operator can act upon,
 * and loses nothing. Also: two daemons on one store (STO-05), and a map that is too small.
 */
#undef _FILE_OFFSET_BITS /* it would rename mmap to mmap64, and LMDB calls mmap */

#include "../unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "fixture.h"
#include "single.h"
#include "store/lmdb_verify.h"
#include "store/store.h"

static char dir[PATH_MAX];
static struct hf_store store;
static bool no_map; /* makes every mmap() of LMDB fail */

/* Replaces the function of the C library, for LMDB. */
void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (no_map && fd >= 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return mmap64(at, len, prot, flags, fd, offset);
}

static const struct hf_store_config *config(void)
{
    static struct hf_store_config c;

    c = (struct hf_store_config){.backend = "lmdb", .path = dir};
    return &c;
}

static void expect_refused(int code, const char *word)
{
    assert_int_equal(hf_store_open(&store, config()), code);
    if (!strstr(hf_store_error(&store), word))
        fail_msg("\"%s\" does not say \"%s\"", hf_store_error(&store), word);
    assert_non_null(strstr(hf_store_error(&store), dir));
}

static void put_locks(uint64_t first, uint64_t last)
{
    uint8_t room[HF_FH_MAX];
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t id = first; id <= last; id++) {
        struct hf_record_lock lock = make_lock(id, 1, room);
        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
    assert_int_equal(hf_store_apply(&store, &batch), 0);
    hf_batch_free(&batch);
}

static struct digest digest(void)
{
    struct digest d;

    assert_int_equal(store_digest(&store, &d), 0);
    return d;
}

static char *data_path(void)
{
    static char path[PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/data.mdb", dir);
    return path;
}

/* Makes a store of a thousand locks, and closes it. */
static int set_up(void **state)
{
    (void)state;
    scratch_make(dir, NULL);
    assert_int_equal(hf_store_open(&store, config()), 0);
    put_locks(1, 1000);
    hf_store_close(&store);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

static void every_truncation_is_noticed(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(stat(data_path(), &st), 0);
    for (off_t size = st.st_size / 2; size >= 0; size -= size > 9000  ? 4096
                                                         : size > 512 ? 512
                                                                      : 51) {
        assert_int_equal(truncate(data_path(), size), 0);
        expect_refused(HF_EFORMAT, "damaged");
    }
}

/* After any 64 bytes were overwritten, the store opens and all records decode, or it refuses to
 * open. */
static void no_damage_crashes_the_daemon(void **state)
{
    struct dice dice = {42};
    unsigned refused = 0;
    struct stat st;
    uint8_t *before;
    int fd = open(data_path(), O_RDWR);

    (void)state;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    before = malloc((size_t)st.st_size);
    assert_int_equal(pread(fd, before, (size_t)st.st_size, 0), st.st_size);
    for (int i = 0; i < 600; i++) {
        uint64_t garbage[8];
        struct digest d;
        off_t at = (off_t)dice_below(&dice, (uint64_t)st.st_size / 64) * 64;

        if (i % 2) /* most bytes that are worth damaging are at the start of a page */
            at = at / 4096 * 4096;
        for (size_t j = 0; j < HF_COUNT_OF(garbage); j++)
            garbage[j] = i % 3 ? dice_roll(&dice) : 0;
        assert_int_equal(pwrite(fd, before, (size_t)st.st_size, 0), st.st_size);
        assert_int_equal(pwrite(fd, garbage, sizeof(garbage), at), sizeof(garbage));
        if (hf_store_open(&store, config()) < 0) {
            refused++;
            continue;
        }
        (void)store_digest(&store, &d);
        hf_store_close(&store);
    }
    assert_true(refused > 200);
    free(before);
    close(fd);
}

static char original[8 << 20];
static size_t original_size;

/* What a daemon does with the file as it is now; found out in a process of its own. */
enum { REFUSED, AS_BEFORE, OTHERWISE };

static int open_in_another_process(const struct digest *want)
{
    struct digest d;
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        int rv = hf_store_open(&store, config());

        if (rv == 0)
            rv = store_digest(&store, &d);
        if (rv < 0)
            _exit(rv == HF_EFORMAT ? REFUSED : OTHERWISE);
        _exit(d.sum == want->sum && d.count == want->count ? AS_BEFORE : OTHERWISE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : OTHERWISE;
}

static void try_bit(int fd, size_t bit, const struct digest *want)
{
    uint8_t byte = (uint8_t)original[bit / 8] ^ (uint8_t)(1U << bit % 8);
    char reason[HF_LMDB_REASON_MAX];
    int rv;

    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
    rv = hf_lmdb_verify(fd, &hf_alloc_heap, reason);
    if (rv == 0) { /* undetected damage must do no harm, or be noticed later */
        if (open_in_another_process(want) == OTHERWISE)
            fail_msg("bit %zu of byte %zu of page %zu", bit % 8, bit / 8 % 4096, bit / 8 / 4096);
        assert_int_equal(pwrite(fd, original, original_size, 0), (ssize_t)original_size);
    } else {
        assert_int_equal(pwrite(fd, original + bit / 8, 1, (off_t)(bit / 8)), 1);
    }
}

/* True for a page that can be overwritten with zeros unnoticed: it is free. */
static bool is_free(int fd, size_t page)
{
    static const char zeros[4096];
    char reason[HF_LMDB_REASON_MAX];
    bool unused;

    assert_int_equal(pwrite(fd, zeros, sizeof(zeros), (off_t)page), sizeof(zeros));
    unused = hf_lmdb_verify(fd, &hf_alloc_heap, reason) == 0;
    assert_int_equal(pwrite(fd, original + page, sizeof(zeros), (off_t)page), sizeof(zeros));
    return unused;
}

/* Flips every bit of the header of every page, of the places of its entries, and of the header and
 * the key of one entry: each flip is noticed, or does no harm. */
static void no_single_bit_crashes_the_daemon_or_hides_a_record(void **state)
{
    enum { PAGE = 4096, HEADER = 16, NODE = 16 };
    struct digest want;
    ssize_t size;
    int fd;

    (void)state;
    /* A file in memory, because this makes a thousand starts with several flushes each. */
    if (access("/dev/shm", W_OK) == 0) {
        scratch_remove(dir);
        scratch_make(dir, "/dev/shm");
    }
    assert_int_equal(hf_store_open(&store, config()), 0);
    put_locks(1, 200);
    fd = open(data_path(), O_RDWR);
    want = digest();
    hf_store_close(&store);
    size = pread(fd, original, sizeof(original), 0);
    assert_true(size > 0 && (size_t)size < sizeof(original));
    original_size = (size_t)size;
    for (size_t page = 0; page < original_size; page += PAGE) {
        uint16_t at;

        if (is_free(fd, page))
            continue;
        for (size_t bit = 10 * 8; bit < (HEADER + 4) * 8; bit++) /* begins with the flags */
            try_bit(fd, page * 8 + bit, &want);
        memcpy(&at, original + page + HEADER + 2, sizeof(at));
        for (size_t bit = 0; page / PAGE > 1 && at <= PAGE - NODE && bit < NODE * 8; bit += 3)
            try_bit(fd, (page + at) * 8 + bit, &want);
    }
    close(fd);
}

/* The first page is that of a machine of the other byte order, or of 32 bits. */
static void a_store_of_another_machine_is_told_from_a_damaged_one(void **state)
{
    static const struct {
        size_t at;
        bool swapped;
        const char *says;
    } MACHINES[] = {{16, true, "another byte order, and"},
                    {12, false, "another word size, and"},
                    {12, true, "another byte order and word size, and"}};

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(MACHINES); i++) {
        uint32_t magic = MACHINES[i].swapped ? 0xdec0efbe : 0xbeefc0de;
        uint8_t page[4096] = {0};
        int fd = open(data_path(), O_RDWR);

        memcpy(page + MACHINES[i].at, &magic, sizeof(magic));
        assert_int_equal(pwrite(fd, page, sizeof(page), 0), sizeof(page));
        close(fd);
        expect_refused(HF_EFORMAT, MACHINES[i].says);
        assert_non_null(strstr(hf_store_error(&store), "--restore"));
        assert_null(strstr(hf_store_error(&store), "damaged"));
    }
}

static void a_foreign_file_is_left_alone(void **state)
{
    static const char TEXT[] = "Dear diary, today I was nearly overwritten by a lock manager.";
    char buf[sizeof(TEXT)];
    int fd = open(data_path(), O_RDWR | O_TRUNC);

    (void)state;
    assert_int_equal(write(fd, TEXT, sizeof(TEXT)), sizeof(TEXT));
    expect_refused(HF_EFORMAT, "damaged");
    assert_int_equal(pread(fd, buf, sizeof(buf), 0), sizeof(buf));
    assert_string_equal(buf, TEXT);
    close(fd);
}

/* Puts a value into a tree directly, without the store. */
static void put_raw(const char *name, uint64_t id, void *data, size_t len)
{
    MDB_val key = {sizeof(id), &id};
    MDB_val value = {len, data};
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi tree;

    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, 3), 0);
    assert_int_equal(mdb_env_open(env, dir, 0, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, name, MDB_INTEGERKEY, &tree), 0);
    assert_int_equal(mdb_put(txn, tree, &key, &value, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

static void a_newer_format_is_refused(void **state)
{
    uint64_t version = 3;

    (void)state;
    put_raw("state", 1, &version, sizeof(version));
    expect_refused(HF_EVERSION, "newer Holdfast");
}

static void a_newer_record_is_refused(void **state)
{
    uint8_t record[] = {HF_RECORD_LOCK, 99, 1, 2, 3};
    struct digest d;

    (void)state;
    put_raw("locks", 2000, record, sizeof(record));
    assert_int_equal(hf_store_open(&store, config()), 0);
    assert_int_equal(store_digest(&store, &d), HF_EVERSION);
    assert_non_null(strstr(hf_store_error(&store), "newer Holdfast"));
    hf_store_close(&store);
}

static void an_interrupted_first_start_is_forgotten(void **state)
{
    char path[PATH_MAX + 16];
    int fd;

    (void)state;
    scratch_remove(dir);
    MUST(mkdir(dir, 0700) == 0);
    snprintf(path, sizeof(path), "%s/data.new", dir);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "half", 4), 4);
    close(fd);
    assert_int_equal(hf_store_open(&store, config()), 0);
    assert_int_equal(digest().count, 0);
    hf_store_close(&store);
}

/* LMDB allows an environment only once per process, so another process plays the other daemon. */
static void in_another_process(void (*act)(void))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        act();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void rob(void)
{
    char path[PATH_MAX + 16];
    struct hf_store thief;

    snprintf(path, sizeof(path), "%s/holdfast.lock", dir);
    if (unlink(path) < 0 || hf_store_open(&thief, config()) < 0)
        _exit(1);
    hf_store_close(&thief);
}

static void expect_fenced(void)
{
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock = make_lock(2000, 1, room);

    assert_int_equal(store_put_lock(&store, &lock), HF_EFENCED);
    assert_int_equal(hf_store_probe(&store), HF_EFENCED);
    hf_store_close(&store);
}

static void expect_locks(size_t count)
{
    assert_int_equal(hf_store_open(&store, config()), 0);
    assert_int_equal(digest().count, count);
    hf_store_close(&store);
}

/* STO-05: an operator removes the lock file as stale and starts a second daemon. */
static void a_daemon_whose_lock_file_was_removed_writes_nothing_more(void **state)
{
    (void)state;
    assert_int_equal(hf_store_open(&store, config()), 0);
    put_locks(1001, 1010); /* these locks are in the journal, and nowhere else */
    in_another_process(rob);
    expect_fenced();
    expect_locks(1010);
}

/* The directory is lost, but no other daemon has taken it: the error must not name one. */
static void a_directory_that_was_moved_away_is_reported_as_such(void **state)
{
    char moved[PATH_MAX + 16];
    uint8_t room[HF_FH_MAX];
    struct hf_record_lock lock = make_lock(2000, 1, room);

    (void)state;
    snprintf(moved, sizeof(moved), "%s.moved", dir);
    assert_int_equal(hf_store_open(&store, config()), 0);
    assert_int_equal(rename(dir, moved), 0);
    assert_int_equal(store_put_lock(&store, &lock), HF_EFENCED);
    assert_non_null(strstr(hf_store_error(&store), "was removed or replaced"));
    assert_int_equal(rename(moved, dir), 0);
    hf_store_close(&store);
}

/* Leaves three batches that only the journal has, and ends without a clean stop. */
static void die_with_a_full_journal(void)
{
    if (hf_store_open(&store, config()) < 0)
        _exit(1);
    put_locks(1001, 1010);
    put_locks(1011, 1020);
    put_locks(1021, 1030);
    _exit(0);
}

static char *journal_path(const char *suffix)
{
    static char path[PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/journal%s", dir, suffix);
    return path;
}

static void touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static void what_is_only_in_the_journal_is_there(void **state)
{
    (void)state;
    in_another_process(die_with_a_full_journal);
    assert_int_equal(hf_store_open(&store, config()), 0);
    assert_int_equal(digest().count, 1030);
    hf_store_close(&store);
}

/* The first record is damaged; valid records after it prove that it existed. */
static void a_damaged_journal_is_noticed(void **state)
{
    int fd;

    (void)state;
    in_another_process(die_with_a_full_journal);
    fd = open(journal_path(""), O_WRONLY);
    assert_int_equal(pwrite(fd, "rust", 4, 100), 4);
    close(fd);
    expect_refused(HF_EFORMAT, "journal.old");
    expect_refused(HF_EFORMAT, "journal.old");
    touch(journal_path(".lost"));
    assert_int_equal(hf_store_open(&store, config()), 0);
    assert_int_equal(digest().count, 1000);
    hf_store_close(&store);
}

/* A store that is refused must not commit the records before the damage. */
static void a_damaged_journal_is_noticed_every_time(void **state)
{
    static const uint8_t RUST[512] = {1};
    off_t at = 0;
    int fd;

    (void)state;
    in_another_process(die_with_a_full_journal);
    fd = open(journal_path(""), O_RDWR);
    /* finds the second of the three records: its first sector behind the first record's last byte
     */
    for (uint64_t index = 0; index != 1; at += 512)
        assert_int_equal(pread(fd, &index, sizeof(index), at + 512 + 8), sizeof(index));
    assert_int_equal(pwrite(fd, RUST, sizeof(RUST), at), sizeof(RUST));
    close(fd);
    expect_refused(HF_EFORMAT, "damaged");
    expect_refused(HF_EFORMAT, "damaged");
    touch(journal_path(".lost"));
    assert_int_equal(hf_store_open(&store, config()), 0);
    assert_int_equal(digest().count, 1010);
    hf_store_close(&store);
}

static void a_journal_cut_short_is_noticed(void **state)
{
    (void)state;
    in_another_process(die_with_a_full_journal);
    assert_int_equal(truncate(journal_path(""), 1024), 0);
    expect_refused(HF_EFORMAT, "damaged");
}

static void a_file_replaced_by_a_backup_is_noticed(void **state)
{
    char command[3 * PATH_MAX];

    (void)state;
    snprintf(command, sizeof(command), "cp %s %s.bak", data_path(), data_path());
    assert_int_equal(system(command), 0);
    assert_int_equal(hf_store_open(&store, config()), 0);
    put_locks(1001, 1010);
    snprintf(command, sizeof(command), "mv %s.bak %s", data_path(), data_path());
    assert_int_equal(system(command), 0);
    expect_fenced();
    /* The locks of the journal were acknowledged, and do not fit into the older file. */
    expect_refused(HF_EFORMAT, "does not belong");
    touch(journal_path(".lost"));
    expect_locks(1000);
}

static void the_map_grows_by_itself(void **state)
{
    struct hf_store_config small = *config();
    struct digest before;

    (void)state;
    small.map_bytes = 1 << 16;
    assert_int_equal(hf_store_open(&store, &small), 0);
    for (uint64_t first = 1; first < 40000; first += 2000)
        put_locks(first, first + 1999);
    before = digest();
    hf_store_close(&store);
    assert_int_equal(hf_store_open(&store, &small), 0);
    assert_true(digest().sum == before.sum && before.count == 40000);
    hf_store_close(&store);
}

/* LMDB gives the old map up before it asks for a larger one. */
static void a_map_that_cannot_grow_is_no_end(void **state)
{
    struct hf_store_config small = *config();
    uint8_t room[HF_FH_MAX];
    struct hf_batch batch;

    (void)state;
    small.map_bytes = 1 << 16;
    assert_int_equal(hf_store_open(&store, &small), 0);
    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t id = 2001; id <= 42000; id++) {
        struct hf_record_lock lock = make_lock(id, 1, room);
        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
    no_map = true;
    assert_int_equal(hf_store_apply(&store, &batch), HF_ENOMEM);
    assert_non_null(strstr(hf_store_error(&store), "cannot enlarge the map"));
    assert_false(hf_store_in_doubt(&store));
    assert_int_equal(hf_store_probe(&store), HF_ENOMEM);
    no_map = false;
    assert_int_equal(digest().count, 1000);
    assert_int_equal(hf_store_apply(&store, &batch), 0);
    assert_int_equal(digest().count, 41000);
    hf_batch_free(&batch);
    hf_store_close(&store);
}

/* Reads as mdb_copy does, and is killed in the middle. */
static void read_and_be_killed(void)
{
    MDB_env *env;
    MDB_txn *txn;

    MUST(mdb_env_create(&env) == 0 && mdb_env_set_maxdbs(env, 3) == 0);
    MUST(mdb_env_open(env, dir, MDB_RDONLY, 0) == 0);
    MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn) == 0);
    kill(getpid(), SIGKILL);
}

static void a_reader_that_was_killed_does_not_make_the_file_grow(void **state)
{
    struct stat st;
    pid_t pid;

    (void)state;
    assert_int_equal(hf_store_open(&store, config()), 0);
    pid = fork();
    if (pid == 0)
        read_and_be_killed();
    assert_true(pid > 0 && waitpid(pid, NULL, 0) == pid);
    for (int i = 0; i < 60; i++) {
        put_locks(1, 1000);
        assert_int_equal(hf_store_probe(&store), 0);
    }
    hf_store_close(&store);
    assert_int_equal(stat(data_path(), &st), 0);
    assert_true(st.st_size < 4 << 20);
}

static void a_missing_parent_is_named(void **state)
{
    char parent[PATH_MAX];

    (void)state;
    strcpy(parent, dir);
    strcat(dir, "/not/there");
    expect_refused(HF_ENOENT, "store.path");
    strcpy(dir, parent);
}

int main(void)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(every_truncation_is_noticed),
        STORY(no_damage_crashes_the_daemon),
        STORY(no_single_bit_crashes_the_daemon_or_hides_a_record),
        STORY(a_store_of_another_machine_is_told_from_a_damaged_one),
        STORY(a_foreign_file_is_left_alone),
        STORY(a_newer_format_is_refused),
        STORY(a_newer_record_is_refused),
        STORY(an_interrupted_first_start_is_forgotten),
        STORY(a_daemon_whose_lock_file_was_removed_writes_nothing_more),
        STORY(a_directory_that_was_moved_away_is_reported_as_such),
        STORY(what_is_only_in_the_journal_is_there),
        STORY(a_damaged_journal_is_noticed),
        STORY(a_damaged_journal_is_noticed_every_time),
        STORY(a_journal_cut_short_is_noticed),
        STORY(a_file_replaced_by_a_backup_is_noticed),
        STORY(the_map_grows_by_itself),
        STORY(a_map_that_cannot_grow_is_no_end),
        STORY(a_reader_that_was_killed_does_not_make_the_file_grow),
        STORY(a_missing_parent_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
