/* A store with a missing part is refused with a message that says which part, and what the operator
 * can do; no store starts empty by accident. Opening may end at any step of a first start, a
 * restart or an upgrade: the next start finds everything. */
#undef _FILE_OFFSET_BITS /* it would rename pwrite to pwrite64, and LMDB calls pwrite */

#include "../unit/unit.h"

#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "fixture.h"
#include "single.h"
#include "store/store.h"

enum { LOCKS = 500, JOURNAL_BYTES = 1 << 20 };

static char dir[PATH_MAX];
static struct hf_store store;

/* ---- a process that ends at its n-th change of a file ---- */

static long changes_left = -1; /* -1: no end */

static void end_here(void)
{
    if (changes_left >= 0 && changes_left-- == 0)
        _exit(1);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    end_here();
    return syscall(SYS_pwrite64, fd, data, len, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
    return pwrite(fd, data, len, offset);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
    end_here();
    return syscall(SYS_writev, fd, iov, count);
}

int fdatasync(int fd)
{
    end_here();
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    end_here();
    return (int)syscall(SYS_fsync, fd);
}

int renameat(int old_dir, const char *old_name, int new_dir, const char *new_name)
{
    end_here();
    return (int)syscall(SYS_renameat2, old_dir, old_name, new_dir, new_name, 0);
}

int unlinkat(int at, const char *name, int flags)
{
    end_here();
    return (int)syscall(SYS_unlinkat, at, name, flags);
}

/* ---- the store ---- */

static const struct hf_store_config *config(void)
{
    static struct hf_store_config c;

    c = (struct hf_store_config){.backend = "lmdb", .path = dir};
    return &c;
}

static char *path_of(const char *name)
{
    static char path[PATH_MAX + 32];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void put_locks(uint64_t first, uint64_t count)
{
    uint8_t room[HF_FH_MAX];

    for (uint64_t id = first; id < first + count; id++) {
        struct hf_record_lock lock = make_lock(id, 1, room);
        MUST(store_put_lock(&store, &lock) == 0);
    }
}

/* Leaves half of the locks in the tree and half in the journal only: the process ends without a
 * clean stop. */
static void crash_with_locks(void)
{
    pid_t pid = fork();
    int status;

    MUST(pid >= 0);
    if (pid == 0) {
        MUST(hf_store_open(&store, config()) == 0);
        put_locks(1, LOCKS / 2);
        MUST(hf_store_probe(&store) == 0);
        put_locks(1 + LOCKS / 2, LOCKS / 2);
        _exit(0);
    }
    MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL);
    return 0;
}

static int set_up_store(void **state)
{
    set_up(state);
    crash_with_locks();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(dir);
    return 0;
}

static void expect_locks(size_t count)
{
    struct digest d;

    if (hf_store_open(&store, config()) < 0)
        fail_msg("refused: %s", hf_store_error(&store));
    assert_int_equal(store_digest(&store, &d), 0);
    assert_int_equal(d.count, count);
    hf_store_close(&store);
}

static void expect_refused(const char *what, const char *advice)
{
    for (int i = 0; i < 2; i++) { /* the second start refuses just as the first did */
        assert_int_equal(hf_store_open(&store, config()), HF_EFORMAT);
        if (!strstr(hf_store_error(&store), what) || !strstr(hf_store_error(&store), advice))
            fail_msg("\"%s\" lacks \"%s\" or \"%s\"", hf_store_error(&store), what, advice);
    }
}

static void touch(const char *name)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    close(fd);
}

/* ---- missing parts ---- */

static void without_its_journal_a_store_is_refused(void **state)
{
    (void)state;
    assert_int_equal(unlink(path_of("journal")), 0);
    expect_refused("journal is missing", "touch");
}

static void also_after_a_clean_stop(void **state)
{
    (void)state;
    expect_locks(LOCKS);
    assert_int_equal(unlink(path_of("journal")), 0);
    expect_refused("journal is missing", "backup");
}

static void the_operator_may_go_on_without_the_journal_once(void **state)
{
    (void)state;
    assert_int_equal(unlink(path_of("journal")), 0);
    touch("journal.lost");
    expect_locks(LOCKS / 2);
    assert_int_equal(access(path_of("journal.lost"), F_OK), -1);
    assert_int_equal(unlink(path_of("journal")), 0);
    expect_refused("journal is missing", "touch");
}

static int keep_server(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    return kind == HF_RECORD_SERVER ? hf_record_decode_server(record, ctx) : 0;
}

static void put_server(enum hf_continuity continuity)
{
    struct hf_record_server server = {.epoch = 5, .role = HF_ROLE_LOCKS, .continuity = continuity};
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_batch_put_server(&batch, &server), 0);
    assert_int_equal(hf_store_open(&store, config()), 0);
    assert_int_equal(hf_store_apply(&store, &batch), 0);
    hf_store_close(&store);
    hf_batch_free(&batch);
}

/* What the next start finds. */
static enum hf_continuity found_continuity(void)
{
    struct hf_record_server server = {0};

    assert_int_equal(hf_store_open(&store, config()), 0);
    assert_int_equal(hf_store_load(&store, keep_server, &server), 0);
    hf_store_close(&store);
    assert_int_equal(server.epoch, 5);
    return server.continuity;
}

/* REC-01g: a start that lost the journal notes the loss, so that the next one does not continue as
 * if nothing had been lost. */
static void a_lost_journal_is_noted(void **state)
{
    (void)state;
    put_server(HF_CONTINUITY_COMPLETE);
    assert_int_equal(unlink(path_of("journal")), 0);
    touch("journal.lost");
    assert_int_equal(found_continuity(), HF_CONTINUITY_LOST);
    assert_int_equal(found_continuity(),
                     HF_CONTINUITY_LOST); /* the second start has a journal again */
}

/* As tar, rsync and cp leave a directory that they restore. */
static void replace_by_copy(const char *name)
{
    char copy[PATH_MAX + 32];
    char command[2 * sizeof(copy) + 64];

    snprintf(copy, sizeof(copy), "%s/copy", dir);
    snprintf(command, sizeof(command), "cp -a '%s' '%s'", path_of(name), copy);
    assert_int_equal(system(command), 0);
    assert_int_equal(rename(copy, path_of(name)), 0);
}

/* REC-01g: locks may have been granted since the copy was made, and none of them is in it. */
static void a_store_that_was_copied_is_noted(void **state)
{
    (void)state;
    put_server(HF_CONTINUITY_COMPLETE);
    assert_int_equal(found_continuity(), HF_CONTINUITY_COMPLETE);
    replace_by_copy("data.mdb");
    replace_by_copy("journal");
    assert_int_equal(found_continuity(), HF_CONTINUITY_LOST);
    put_server(HF_CONTINUITY_COMPLETE); /* a run later the copy is the store */
    assert_int_equal(found_continuity(), HF_CONTINUITY_COMPLETE);
}

/* A run that recorded locks only is never continued: there is nothing to note. */
static void a_copy_of_a_store_with_locks_only_stays_as_it_is(void **state)
{
    (void)state;
    put_server(HF_CONTINUITY_NONE);
    replace_by_copy("data.mdb");
    assert_int_equal(found_continuity(), HF_CONTINUITY_NONE);
}

/* Permission to lose the journal is not used while the journal is good. */
static void a_good_journal_is_read_all_the_same(void **state)
{
    (void)state;
    touch("journal.lost");
    expect_locks(LOCKS);
}

static void without_its_data_a_store_is_refused(void **state)
{
    (void)state;
    assert_int_equal(unlink(path_of("data.mdb")), 0);
    expect_refused("data.mdb is missing", "start empty");
    assert_int_equal(access(path_of("journal"), F_OK), 0);
    assert_int_equal(unlink(path_of("journal")), 0);
    expect_locks(0);
}

static void another_stores_journal_is_refused(void **state)
{
    char first[PATH_MAX];
    char journal[PATH_MAX + 32];
    void *nothing = NULL;

    (void)state;
    strcpy(first, dir);
    strcpy(journal, path_of("journal"));
    set_up_store(&nothing);
    assert_int_equal(rename(path_of("journal"), journal), 0);
    tear_down(&nothing);
    strcpy(dir, first);
    expect_refused("does not belong", "backup");
}

/* ---- older stores ---- */

/* Leaves the store as a version without ids does: no id in LMDB, none behind the records. */
static void make_older(bool had_newer)
{
    uint64_t id = 5;
    uint8_t stale[24] = {1, 2, 3}; /* another key than that of the journal */
    MDB_val key = {sizeof(id), &id};
    MDB_val value = {sizeof(stale), stale};
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi tree;

    MUST(truncate(path_of("journal"), JOURNAL_BYTES) == 0);
    MUST(mdb_env_create(&env) == 0 && mdb_env_set_maxdbs(env, 3) == 0);
    MUST(mdb_env_open(env, dir, 0, 0600) == 0 && mdb_txn_begin(env, NULL, 0, &txn) == 0);
    MUST(mdb_dbi_open(txn, "state", MDB_INTEGERKEY, &tree) == 0);
    if (had_newer)
        MUST(mdb_put(txn, tree, &key, &value, 0) == 0);
    else
        MUST(mdb_del(txn, tree, &key, NULL) == 0);
    MUST(mdb_txn_commit(txn) == 0);
    mdb_env_close(env);
}

static void an_older_store_is_upgraded(void **state)
{
    (void)state;
    make_older(false);
    expect_locks(LOCKS);
    assert_int_equal(unlink(path_of("journal")), 0);
    expect_refused("journal is missing", "touch");
}

/* A store that was downgraded, used and upgraded again: the older version replaced the key, but not
 * the id. */
static void a_store_that_an_older_version_used_since_is_upgraded(void **state)
{
    (void)state;
    make_older(true);
    expect_locks(LOCKS);
    assert_int_equal(unlink(path_of("journal")), 0);
    expect_refused("journal is missing", "touch");
}

/* ---- every step ---- */

/* True if opening ended before it was complete. */
static bool open_until(long changes)
{
    pid_t pid = fork();
    int status;

    MUST(pid >= 0);
    if (pid == 0) {
        changes_left = changes;
        _exit(hf_store_open(&store, config()) < 0 ? 2 : 0);
    }
    MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) != 2);
    return WEXITSTATUS(status) == 1;
}

enum start { FIRST, AGAIN, UPGRADE };

static void end_at_every_step(enum start how)
{
    void *nothing = NULL;
    long steps = 0;
    bool ended = true;

    while (ended) {
        set_up(&nothing);
        if (how != FIRST)
            crash_with_locks();
        if (how == UPGRADE)
            make_older(false);
        ended = open_until(steps);
        if (ended)
            (void)open_until(steps / 2); /* opening is interrupted once more on the way back */
        expect_locks(how == FIRST ? 0 : LOCKS);
        tear_down(&nothing);
        steps++;
    }
    assert_true(steps > 20);
}

static void a_first_start_may_end_at_any_step(void **state)
{
    (void)state;
    end_at_every_step(FIRST);
}

static void a_restart_may_end_at_any_step(void **state)
{
    (void)state;
    end_at_every_step(AGAIN);
}

static void an_upgrade_may_end_at_any_step(void **state)
{
    (void)state;
    end_at_every_step(UPGRADE);
}

int main(void)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, set_up_store, tear_down)
    const struct CMUnitTest tests[] = {
        STORY(without_its_journal_a_store_is_refused),
        STORY(also_after_a_clean_stop),
        STORY(the_operator_may_go_on_without_the_journal_once),
        STORY(a_lost_journal_is_noted),
        STORY(a_store_that_was_copied_is_noted),
        STORY(a_copy_of_a_store_with_locks_only_stays_as_it_is),
        STORY(a_good_journal_is_read_all_the_same),
        STORY(without_its_data_a_store_is_refused),
        STORY(another_stores_journal_is_refused),
        STORY(an_older_store_is_upgraded),
        STORY(a_store_that_an_older_version_used_since_is_upgraded),
        cmocka_unit_test(a_first_start_may_end_at_any_step),
        cmocka_unit_test(a_restart_may_end_at_any_step),
        cmocka_unit_test(an_upgrade_may_end_at_any_step),
    };

    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
