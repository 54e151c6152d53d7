/* The history (ADM-11): its lines, its two files, and what a search finds in them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "history/history.h"
#include "unit.h"

static char directory[] = "/tmp/hf-history-XXXXXX";
static int64_t now_ms;

static const char *in_directory(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static struct hf_history_entry held(int64_t from_ms, int64_t to_ms, const char *client, uint64_t id)
{
    static const uint8_t FH[] = {1, 2, 0xab};
    struct hf_history_entry entry = {
        .kind = HF_HISTORY_LOCK,
        .from_ms = from_ms,
        .to_ms = to_ms,
        .why = "unlocked",
        .exclusive = true,
        .first = 5,
        .last = UINT64_MAX,
        .client = hf_bytes_str(client),
        .fh = hf_bytes(FH, sizeof(FH)),
        .oh = hf_bytes_str("7@a"),
        .svid = -7,
        .id = id,
        .path = "/srv/a b",
    };

    assert_int_equal(hf_addr_parse("192.0.2.1", &entry.addr), 0);
    return entry;
}

/* ---- lines ---- */

static void test_a_line_says_again_what_was_written(void **state)
{
    struct hf_history_entry entry = held(100, 2500, "build-2", 42);
    char line[HF_HISTORY_LINE_MAX];
    struct hf_history_row row;
    size_t len = hf_history_encode(&entry, line);

    (void)state;
    assert_int_equal(line[len - 1], '\n');
    line[len - 1] = '\0';
    assert_true(hf_history_decode(line, &row));
    assert_int_equal(row.kind, HF_HISTORY_LOCK);
    assert_int_equal(row.from_ms, 100);
    assert_int_equal(row.to_ms, 2500);
    assert_string_equal(row.why, "unlocked");
    assert_true(row.exclusive);
    assert_int_equal(row.first, 5);
    assert_true(row.last == UINT64_MAX);
    assert_string_equal(row.addr, "192.0.2.1");
    assert_string_equal(row.client, "build-2");
    assert_string_equal(row.fh, "0102ab");
    assert_int_equal(row.svid, -7);
    assert_string_equal(row.owner, "7@a");
    assert_int_equal(row.id, 42);
    assert_string_equal(row.path, "/srv/a b");
    assert_string_equal(row.text, "");
}

/* A client chooses its name and its owner handles. It can forge no line and no field. */
static void test_hostile_bytes_stay_in_their_field(void **state)
{
    struct hf_history_entry entry = held(1, 2, "x\ty\nlock\t\xff", 1);
    uint8_t long_name[600];
    char line[HF_HISTORY_LINE_MAX];
    struct hf_history_row row;
    size_t len;

    (void)state;
    entry.oh = hf_bytes_str("-");
    len = hf_history_encode(&entry, line);
    assert_ptr_equal(memchr(line, '\n', len), line + len - 1);
    line[len - 1] = '\0';
    assert_true(hf_history_decode(line, &row));
    assert_string_equal(row.client, "x\\x09y\\x0alock\\x09\\xff");
    assert_string_equal(row.owner, "\\x2d");

    memset(long_name, 0xff, sizeof(long_name));
    entry.client = entry.oh = hf_bytes(long_name, sizeof(long_name));
    entry.path = "/a\tb";
    len = hf_history_encode(&entry, line);
    line[len - 1] = '\0';
    assert_true(hf_history_decode(line, &row));
    assert_int_equal(strlen(row.client), 4 * HF_HISTORY_NAME_MAX);
    assert_int_equal(strlen(row.owner), 4 * HF_HISTORY_OH_MAX);
    assert_string_equal(row.path, "");
}

static void test_lines_of_another_form_are_refused(void **state)
{
    static const char *const LINES[] = {
        "",
        "lock",
        "lock\t1\t2\tunlocked\tx\t0\t9\t-\t-\t-\t0\t-\t1\t-", /* this line has a field too few */
        "lock\t1\t2\tunlocked\tx\t0\t9\t-\t-\t-\t0\t-\t1\t-\t-\t-",       /* too many */
        "boat\t1\t2\tunlocked\tx\t0\t9\t-\t-\t-\t0\t-\t1\t-\t-",          /* no such kind */
        "lock\t1x\t2\tunlocked\tx\t0\t9\t-\t-\t-\t0\t-\t1\t-\t-",         /* no number */
        "lock\t1\t2\tunlocked\tx\t-1\t9\t-\t-\t-\t0\t-\t1\t-\t-",         /* no offset */
        "lock\t1\t2\tunlocked\tx\t0\t9\t-\t-\t-\t2147483648\t-\t1\t-\t-", /* no svid */
    };
    struct hf_history_row row;

    (void)state;
    for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++) {
        char line[256];
        snprintf(line, sizeof(line), "%s", LINES[i]);
        assert_false(hf_history_decode(line, &row));
    }
}

/* ---- files and searches ---- */

static struct hf_history *open_history(uint64_t bytes, int64_t age_ms)
{
    struct hf_history_config config = {directory, bytes, age_ms};
    struct hf_history *history = hf_history_new(uv_default_loop(), &config);

    assert_non_null(history);
    return history;
}

static void put(struct hf_history *history, const struct hf_history_entry *entry)
{
    hf_history_put(history, entry);
    hf_history_end_turn(history);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

static void close_history(struct hf_history *history)
{
    hf_history_close(history);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    unlink(in_directory("history"));
    unlink(in_directory("history.old"));
}

static unsigned n_done;

static void on_found(struct hf_history_search *search)
{
    (void)search;
    n_done++;
}

static struct hf_history_search find(struct hf_history *history, struct hf_history_query query)
{
    struct hf_history_search search = {.query = query, .done = on_found};

    if (query.limit == 0)
        search.query.limit = 100;
    n_done = 0;
    assert_int_equal(hf_history_search(history, &search), 0);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    assert_int_equal(n_done, 1);
    assert_int_equal(search.found.error, 0);
    return search;
}

static void test_a_search_finds_by_client_file_and_time(void **state)
{
    struct hf_history *history = open_history(1 << 20, 1000000);
    struct hf_history_entry a = held(now_ms - 9000, now_ms - 8000, "a", 1);
    struct hf_history_entry b = held(now_ms - 7000, now_ms - 1000, "b", 2);
    struct hf_history_entry start = {
        .kind = HF_HISTORY_NOTE, .to_ms = now_ms - 500, .from_ms = now_ms - 500, .why = "start"};
    struct hf_history_entry released = {.kind = HF_HISTORY_NOTE,
                                        .to_ms = now_ms - 400,
                                        .from_ms = now_ms - 400,
                                        .fh = hf_bytes("\x7f", 1),
                                        .why = "released"};
    static const struct {
        char text[16];
        bool found;
    } FILES[] = {{"/srv/a b", true}, {"/srv/a", false}, {"A B", true},
                 {"0102AB", true},   {"/srv/*", true},  {"*a b", true},
                 {"/srv/?", false},  {"0102*", true},   {"[", false}};
    struct hf_history_search found;

    (void)state;
    found = find(history, (struct hf_history_query){.client = "b"});
    assert_int_equal(found.found.begins_ms, 0);
    hf_history_search_free(&found);
    put(history, &a);
    put(history, &b);
    put(history, &start);

    found = find(history, (struct hf_history_query){.client = "b"});
    /* The restart is found as well, because it concerns every client. */
    assert_int_equal(found.found.n_rows, 2);
    assert_int_equal(found.found.rows[0].id, 2);
    assert_string_equal(found.found.rows[1].why, "start");
    hf_history_search_free(&found);

    found = find(history, (struct hf_history_query){.client = "192.0.2.1", .limit = 2});
    assert_int_equal(found.found.n_rows, 2); /* the newest */
    assert_int_equal(found.found.rows[0].id, 2);
    assert_true(found.found.more);
    hf_history_search_free(&found);

    found = find(history, (struct hf_history_query){.file = "/srv/a b",
                                                    .since_ms = now_ms - 8500,
                                                    .until_ms = now_ms - 8200});
    assert_int_equal(found.found.n_rows, 1);
    assert_int_equal(found.found.rows[0].id, 1);
    assert_false(found.found.more);
    hf_history_search_free(&found);

    for (size_t i = 0; i < sizeof(FILES) / sizeof(FILES[0]); i++) {
        struct hf_history_query query = {0};
        strcpy(query.file, FILES[i].text);
        found = find(history, query);
        assert_int_equal(found.found.n_rows, FILES[i].found ? 3 : 1); /* the restart, too */
        assert_int_equal(found.found.begins_ms, a.to_ms);
        hf_history_search_free(&found);
    }
    found = find(history, (struct hf_history_query){.client = "0.2.1"});
    assert_int_equal(found.found.n_rows, 3);
    hf_history_search_free(&found);

    put(history, &released);
    found = find(history, (struct hf_history_query){.file = "0102ac"});
    /* The restart is found, and no note about another file. */
    assert_int_equal(found.found.n_rows, 1);
    assert_string_equal(found.found.rows[0].why, "start");
    hf_history_search_free(&found);
    close_history(history);
}

/* The batch of an UNLOCK failed, so the lock is still held, and ends later. */
static void test_an_end_that_was_undone_is_not_shown(void **state)
{
    struct hf_history *history = open_history(1 << 20, 1000000);
    struct hf_history_entry end = held(now_ms - 9000, now_ms - 8000, "a", 7);
    struct hf_history_entry undone = end;
    struct hf_history_search found;

    (void)state;
    undone.kind = HF_HISTORY_UNDONE;
    put(history, &end);
    put(history, &undone);
    found = find(history, (struct hf_history_query){.client = "a"});
    assert_int_equal(found.found.n_rows, 0);
    hf_history_search_free(&found);
    end.to_ms = now_ms;
    put(history, &end);
    found = find(history, (struct hf_history_query){.client = "a"});
    assert_int_equal(found.found.n_rows, 1);
    assert_int_equal(found.found.rows[0].to_ms, now_ms);
    hf_history_search_free(&found);
    close_history(history);
}

static void test_two_files_stay_below_the_size(void **state)
{
    enum { BYTES = 4096 };
    struct hf_history *history = open_history(BYTES, 1000000);
    struct hf_history_search found;
    struct stat st;

    (void)state;
    for (uint64_t i = 1; i <= 100; i++) {
        struct hf_history_entry entry = held(now_ms - 9000, now_ms, "a", i);
        off_t sum = 0;
        put(history, &entry);
        assert_int_equal(stat(in_directory("history"), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        sum += st.st_size;
        if (stat(in_directory("history.old"), &st) == 0)
            sum += st.st_size;
        assert_true(sum <= BYTES);
    }
    found = find(history, (struct hf_history_query){.client = "a"});
    assert_true(found.found.n_rows > BYTES / 2 / 150 && found.found.n_rows < 100);
    assert_int_equal(found.found.rows[found.found.n_rows - 1].id, 100);
    for (unsigned i = 1; i < found.found.n_rows; i++)
        assert_int_equal(found.found.rows[i].id, found.found.rows[i - 1].id + 1);
    hf_history_search_free(&found);
    close_history(history);
}

static void test_what_is_too_old_is_not_shown(void **state)
{
    struct hf_history *history = open_history(1 << 20, 5000);
    struct hf_history_entry old = held(now_ms - 90000, now_ms - 60000, "a", 1);
    struct hf_history_search found;

    (void)state;
    put(history, &old);
    found = find(history, (struct hf_history_query){0});
    assert_int_equal(found.found.n_rows, 0);
    hf_history_search_free(&found);
    close_history(history);
}

/* A crash of the host may cut the last line; no other line is lost. */
static void test_a_cut_line_is_skipped(void **state)
{
    struct hf_history *history = open_history(1 << 20, 1000000);
    struct hf_history_entry entry = held(now_ms - 9000, now_ms - 8000, "a", 1);
    struct hf_history_search found;
    int fd;

    (void)state;
    fd = open(in_directory("history"), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "lock\t12", 7), 7);
    close(fd);
    put(history, &entry);
    found = find(history, (struct hf_history_query){0});
    assert_int_equal(found.found.n_rows, 1);
    hf_history_search_free(&found);
    close_history(history);
}

/* A disk that takes nothing loses lines, and does no other harm. */
static void test_what_cannot_be_written_is_counted(void **state)
{
    struct hf_history *history = open_history(1 << 20, 1000000);
    struct hf_history_entry entry = held(now_ms - 9000, now_ms - 8000, "a", 1);

    (void)state;
    assert_int_equal(mkdir(in_directory("history"), 0700), 0);
    put(history, &entry);
    assert_int_equal(hf_history_counters(history).lines, 1);
    assert_int_equal(hf_history_counters(history).lost, 1);
    assert_true(hf_history_error(history)[0] != '\0');
    assert_int_equal(rmdir(in_directory("history")), 0);
    put(history, &entry); /* the history recovers by itself */
    assert_int_equal(hf_history_counters(history).lost, 1);
    assert_string_equal(hf_history_error(history), "");

    for (unsigned i = 0; i < HF_HISTORY_BUFFER_BYTES / 100; i++)
        /* In one turn, so that there is more than the buffer holds. */
        hf_history_put(history, &entry);
    assert_true(hf_history_counters(history).lost > 1);
    close_history(history);
}

/* The daemon stops, or a caller goes away, during a search. */
static void test_a_search_is_abandoned(void **state)
{
    struct hf_history *history = open_history(1 << 20, 1000000);
    struct hf_history_entry entry = held(now_ms - 9000, now_ms - 8000, "a", 1);
    struct hf_history_search searches[5];

    (void)state;
    put(history, &entry);
    n_done = 0;
    for (int i = 0; i < 5; i++) {
        searches[i] = (struct hf_history_search){.query = {.limit = 1}, .done = on_found};
        assert_int_equal(hf_history_search(history, &searches[i]), i < 4 ? 0 : HF_ELIMIT);
    }
    hf_history_search_free(&searches[0]); /* the caller of this search goes away */
    hf_history_put(history, &entry);
    close_history(history); /* writes the last line, and ends the other three searches */
    assert_int_equal(n_done, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_says_again_what_was_written),
        cmocka_unit_test(test_hostile_bytes_stay_in_their_field),
        cmocka_unit_test(test_lines_of_another_form_are_refused),
        cmocka_unit_test(test_a_search_finds_by_client_file_and_time),
        cmocka_unit_test(test_an_end_that_was_undone_is_not_shown),
        cmocka_unit_test(test_two_files_stay_below_the_size),
        cmocka_unit_test(test_what_is_too_old_is_not_shown),
        cmocka_unit_test(test_a_cut_line_is_skipped),
        cmocka_unit_test(test_what_cannot_be_written_is_counted),
        cmocka_unit_test(test_a_search_is_abandoned),
    };
    int failed;

    now_ms = hf_clock_wall_ms();
    if (!mkdtemp(directory))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    uv_loop_close(uv_default_loop());
    return failed;
}
