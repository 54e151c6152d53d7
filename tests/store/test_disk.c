/*
 * A full disk and a read-only one (STO-04): a small tmpfs in a mount namespace of this process
 * alone.
 */
#include "../unit/unit.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "base/error.h"
#include "fixture.h"
#include "store/store.h"

static char disk[PATH_MAX];
static char path[PATH_MAX + 16];
static const struct hf_store_config config = {.backend = "lmdb", .path = path};
static struct hf_store store;

static int mount_disk(void **state)
{
    (void)state;
    MUST(mount("tmpfs", disk, "tmpfs", 0, "size=5m") == 0);
    assert_int_equal(hf_store_open(&store, &config), 0);
    return 0;
}

static int unmount_disk(void **state)
{
    (void)state;
    hf_store_close(&store);
    MUST(umount2(disk, MNT_DETACH) == 0);
    return 0;
}

/* Puts a batch of locks, and returns the store's answer. */
static int put_locks(uint64_t first, uint64_t count)
{
    uint8_t room[HF_FH_MAX];
    struct hf_batch batch;
    int rv;

    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t id = first; id < first + count; id++) {
        struct hf_record_lock lock = make_lock(id, 1, room);
        assert_int_equal(hf_batch_put_lock(&batch, &lock), 0);
    }
    rv = hf_store_apply(&store, &batch);
    hf_batch_free(&batch);
    return rv;
}

static size_t count_locks(void)
{
    struct digest d;

    assert_int_equal(store_digest(&store, &d), 0);
    return d.count;
}

static void fill_disk(size_t *acknowledged)
{
    uint64_t first = 1;
    int rv;

    while ((rv = put_locks(first, 100)) == 0)
        first += 100;
    assert_int_equal(rv, HF_ENOSPC);
    assert_non_null(strstr(hf_store_error(&store), "free some space"));
    *acknowledged = first - 1;
    assert_true(*acknowledged > 1000);
}

static void a_full_disk_refuses_and_loses_nothing(void **state)
{
    size_t acknowledged;

    (void)state;
    fill_disk(&acknowledged);
    assert_int_equal(hf_store_probe(&store), HF_ENOSPC);

    /* there is room again, and the same store goes on */
    MUST(mount("tmpfs", disk, "tmpfs", MS_REMOUNT, "size=12m") == 0);
    assert_int_equal(hf_store_probe(&store), 0);
    assert_int_equal(count_locks(), acknowledged);
    assert_int_equal(put_locks(1000001, 100), 0);
    hf_store_close(&store);
    assert_int_equal(hf_store_open(&store, &config), 0);
    assert_int_equal(count_locks(), acknowledged + 100);
}

static void a_restart_on_a_full_disk_loses_nothing(void **state)
{
    size_t acknowledged;

    (void)state;
    fill_disk(&acknowledged);
    hf_store_close(&store);
    assert_int_equal(hf_store_open(&store, &config), HF_ENOSPC);
    MUST(mount("tmpfs", disk, "tmpfs", MS_REMOUNT, "size=12m") == 0);
    assert_int_equal(hf_store_open(&store, &config), 0);
    assert_int_equal(count_locks(), acknowledged);
}

static void a_disk_full_from_the_start_is_named(void **state)
{
    char filler[PATH_MAX + 16];
    char zeros[4096] = {0};
    FILE *file;

    (void)state;
    hf_store_close(&store);
    scratch_remove(path);
    snprintf(filler, sizeof(filler), "%s/filler", disk);
    file = fopen(filler, "w");
    MUST(file);
    while (fwrite(zeros, sizeof(zeros), 1, file) == 1 && fflush(file) == 0)
        continue;
    fclose(file);
    assert_int_equal(hf_store_open(&store, &config), HF_ENOSPC);
    assert_non_null(strstr(hf_store_error(&store), "full"));
    /* the next start finds what the failed one left behind, and still works */
    MUST(remove(filler) == 0);
    assert_int_equal(hf_store_open(&store, &config), 0);
}

static void a_read_only_disk_is_named(void **state)
{
    (void)state;
    hf_store_close(&store);
    MUST(mount("tmpfs", disk, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=5m") == 0);
    assert_int_equal(hf_store_open(&store, &config), HF_EROFS);
    assert_non_null(strstr(hf_store_error(&store), "read-only"));
    MUST(mount("tmpfs", disk, "tmpfs", MS_REMOUNT, "size=5m") == 0);
    assert_int_equal(hf_store_open(&store, &config), 0);
}

int main(void)
{
#define STORY(f) cmocka_unit_test_setup_teardown(f, mount_disk, unmount_disk)
    const struct CMUnitTest tests[] = {
        STORY(a_full_disk_refuses_and_loses_nothing),
        STORY(a_restart_on_a_full_disk_loses_nothing),
        STORY(a_disk_full_from_the_start_is_named),
        STORY(a_read_only_disk_is_named),
    };
    int rv;

    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        printf("1..0 # SKIP no right to make a mount namespace\n");
        return 0;
    }
    scratch_make(disk, NULL);
    snprintf(path, sizeof(path), "%s/store", disk);
    rv = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(disk);
    return rv;
}
