/* The small parts of the administration room: file handle map, filters, rows, metrics, token. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/answer.h"
#include "admin/exposition.h"
#include "admin/fh_map.h"
#include "admin/filter.h"
#include "admin/host.h"
#include "admin/rows.h"
#include "admin/sessions.h"
#include "admin/token.h"
#include "admin/writer.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/secret.h"
#include <sys/stat.h>

/* Makes a file with this text, which lasts as long as a test. */
static const char *file_with(const char *text, char path[64])
{
    int fd;

    strcpy(path, "/tmp/holdfast-unit-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    return path;
}

static int read_map(struct hf_fh_map *map, const char *text)
{
    char path[64];
    int rv = hf_fh_map_read(map, file_with(text, path));

    unlink(path);
    return rv;
}

/* Given lines in any order, with comments, each handle has its own path, spaces and all. */
static void map_names_handles(void **state)
{
    struct hf_fh_map map;

    (void)state;
    hf_fh_map_init(&map);
    assert_int_equal(read_map(&map, "# a comment\n\n0b0c /b and c\n0A /a\n0b /b\n"), 0);
    assert_string_equal(hf_fh_map_path(&map, hf_bytes("\x0a", 1)), "/a");
    assert_string_equal(hf_fh_map_path(&map, hf_bytes("\x0b", 1)), "/b");
    assert_string_equal(hf_fh_map_path(&map, hf_bytes("\x0b\x0c", 2)), "/b and c");
    assert_null(hf_fh_map_path(&map, hf_bytes("\x0c", 1)));
    assert_int_equal(hf_fh_map_read(&map, ""), 0);
    assert_null(hf_fh_map_path(&map, hf_bytes("\x0a", 1)));
    hf_fh_map_free(&map);
}

/* Given a file that is missing or has a line that makes no sense, the names from before stay. */
static void map_keeps_what_it_had(void **state)
{
    static const char *const BAD[] = {"0a\n", "xyz /path\n", "0 /odd\n", "0a /a\n /no handle\n"};
    struct hf_fh_map map;

    (void)state;
    hf_fh_map_init(&map);
    assert_int_equal(read_map(&map, "0a /a\n"), 0);
    for (size_t i = 0; i < HF_COUNT_OF(BAD); i++)
        assert_int_equal(read_map(&map, BAD[i]), HF_EINVAL);
    assert_int_equal(hf_fh_map_read(&map, "/nonexistent"), HF_EINVAL);
    assert_string_equal(hf_fh_map_path(&map, hf_bytes("\x0a", 1)), "/a");
    hf_fh_map_free(&map);
}

static void hex_is_even_and_bounded(void **state)
{
    uint8_t out[2];

    (void)state;
    assert_int_equal(hf_hex_decode("aB09", 4, out, sizeof(out)), 2);
    assert_int_equal(out[0], 0xab);
    assert_int_equal(hf_hex_decode("", 0, out, sizeof(out)), -1);
    assert_int_equal(hf_hex_decode("abc", 3, out, sizeof(out)), -1);
    assert_int_equal(hf_hex_decode("ag", 2, out, sizeof(out)), -1);
    assert_int_equal(hf_hex_decode("aabbcc", 6, out, sizeof(out)), -1);
}

/* A client is found by id, by part of its name in any case, and by its address. */
static void filters_find(void **state)
{
    static struct filter any, f;
    struct hf_bytes name = hf_bytes_str("Alpha.example");
    struct hf_names *names;
    struct hf_addr addr;
    uv_loop_t loop;

    (void)state;
    uv_loop_init(&loop);
    assert_int_equal(hf_names_new(&loop, "", "", &names), 0);
    any.names = f.names = names;
    assert_int_equal(hf_addr_parse("192.0.2.7", &addr), 0);
    assert_true(hf_filter_client(&any, 5, name, &addr));
    for (const char **w = (const char *[]){"5", "alpha", "EXAMPLE", "2.0.2.7", NULL}; *w; w++) {
        strcpy(f.client, *w);
        assert_true(hf_filter_client(&f, 5, name, &addr));
    }
    strcpy(f.client, "beta");
    assert_false(hf_filter_client(&f, 5, name, &addr));
    strcpy(f.file, "B1c");
    assert_true(hf_filter_file(&f, name, hf_bytes("\x0a\xb1\xc2", 3)));
    assert_false(hf_filter_file(&f, name, hf_bytes("\x0a", 1)));
    strcpy(f.owner, "-3");
    assert_true(hf_filter_owner(&f, -3, hf_bytes_str("x")));
    assert_false(hf_filter_owner(&f, 3, hf_bytes_str("x")));
    assert_false(hf_filter_set_path(&f, "relative"));
    assert_true(hf_filter_set_path(&f, "/srv/a"));
    assert_false(hf_filter_file(&f, name, hf_bytes("\x0a\xb1\xc2", 3)));
    assert_int_equal(f.unnamed, 1);
    hf_names_close(names);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

/* NAM-01: a namer may lie: its answer is accepted only if it makes sense, and shown only in quotes.
 */
static void answers_of_a_namer_are_checked(void **state)
{
    static const char *const BAD[] = {"",
                                      "x named /a",
                                      "1",
                                      "1 named",
                                      "1 named ",
                                      "1 named a",
                                      "1 named /a\\",
                                      "1 named /a\\x00",
                                      "1 later on",
                                      "1  named /a",
                                      "-1 unknown",
                                      "99999999999999999999 unknown",
                                      "1 maybe"};
    static struct hf_name_answer answer;
    static char line[HF_PATH_BYTES_MAX + 64];

    (void)state;
    assert_true(hf_name_answer_read(hf_bytes_str("17 named /srv/a b"), &answer));
    assert_int_equal(answer.id, 17);
    assert_int_equal(answer.status, HF_NAME_KNOWN);
    assert_string_equal(answer.path, "/srv/a b");
    assert_true(hf_name_answer_read(hf_bytes_str("1 named /\x1b[2J\xff\\x41"), &answer));
    assert_string_equal(answer.path, "/\\x1b[2J\\xffA");
    assert_true(hf_name_answer_read(hf_bytes_str("1 deleted"), &answer));
    assert_int_equal(answer.status, HF_NAME_DELETED);
    for (const char **w = (const char *[]){"1 unknown", "1 later", "1 error any text", NULL}; *w;
         w++) {
        assert_true(hf_name_answer_read(hf_bytes_str(*w), &answer));
        assert_int_equal(answer.status, HF_NAME_NONE);
    }
    for (size_t i = 0; i < HF_COUNT_OF(BAD); i++)
        assert_false(hf_name_answer_read(hf_bytes_str(BAD[i]), &answer));
    memset(line, 'a', sizeof(line));
    memcpy(line, "1 named /", 9);
    assert_true(hf_name_answer_read(hf_bytes(line, 8 + HF_PATH_BYTES_MAX), &answer));
    assert_false(hf_name_answer_read(hf_bytes(line, 8 + HF_PATH_BYTES_MAX + 1), &answer));
}

/* Numbers that JavaScript would round are text; bytes that are no text are still shown. */
static void rows_are_written_as_json(void **state)
{
    static const char EXPECTED[] =
        "{\"id\":\"18446744073709551615\",\"n\":-5,\"t\":\"2023-11-14T22:13:20.123Z\",\"none\":"
        "null,"
        "\"s\":1.500,\"back\":0.000,\"b\":true,\"hex\":\"01fe\",\"empty\":\"\",\"nowhere\":null,"
        "\"a\":[\"plain \xc3\xa4\",\"\\\"\\\\ "
        "\\\\xff\\\\x0a\\\\xe2\\\\x80\\\\xae.\"],\"nothing\":null}";
    struct hf_addr nowhere = {0};
    struct hf_buf buf;
    struct writer w = {.out = &buf};

    (void)state;
    hf_buf_init(&buf, &hf_alloc_heap);
    hf_json_open(&w, NULL, '{');
    hf_json_id(&w, "id", UINT64_MAX);
    hf_json_int(&w, "n", -5);
    hf_json_time(&w, "t", 1700000000123);
    hf_json_time(&w, "none", 0);
    hf_json_seconds(&w, "s", 1500);
    hf_json_seconds(&w, "back", -20);
    hf_json_bool(&w, "b", true);
    hf_json_hex(&w, "hex", hf_bytes("\x01\xfe", 2));
    hf_json_hex(&w, "empty", hf_bytes(NULL, 0));
    hf_json_addr(&w, "nowhere", &nowhere);
    hf_json_open(&w, "a", '[');
    hf_json_str(&w, NULL, "plain \xc3\xa4");
    /* The last character reverses the direction of text. */
    hf_json_str(&w, NULL, "\"\\ \xff\n\xe2\x80\xae.");
    hf_json_close(&w, ']');
    hf_json_str(&w, "nothing", NULL);
    hf_json_close(&w, '}');
    assert_false(w.failed);
    assert_int_equal(hf_buf_append(&buf, "", 1), 0);
    assert_string_equal((const char *)hf_buf_view(&buf).data, EXPECTED);
    hf_buf_free(&buf);
}

/* Given no memory, a row is marked as incomplete. */
static void a_row_without_memory_fails(void **state)
{
    struct faulty_heap heap = {.after = 0};
    struct hf_alloc alloc = faulty_alloc(&heap);
    struct hf_buf buf;
    struct writer w = {.out = &buf};

    (void)state;
    hf_buf_init(&buf, &alloc);
    hf_json_hex(&w, NULL, hf_bytes("\x01", 1));
    hf_json_str(&w, NULL, "text");
    assert_true(w.failed);
    hf_buf_free(&buf);
    assert_int_equal(heap.live, 0);
}

/* TRK-01: given a reconnect window, the client's row has it; null without one. */
static void a_reconnect_window_is_shown(void **state)
{
    static const struct {
        uint64_t ttl_ms;
        const char *shown;
    } CASES[] = {{0, "\"ttl_seconds\":null,"},
                 {300500, "\"ttl_seconds\":300.500,"},
                 {UINT64_MAX, "\"ttl_seconds\":9223372036854775.807,"}};
    struct row_context context = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        union row row = {.client.record = {.ttl_ms = CASES[i].ttl_ms, .n_addrs = 1}};
        struct hf_buf buf;
        struct writer w = {.out = &buf};

        hf_buf_init(&buf, &hf_alloc_heap);
        hf_row_client(&w, &context, &row);
        assert_int_equal(hf_buf_append(&buf, "", 1), 0);
        assert_non_null(strstr((const char *)hf_buf_view(&buf).data, CASES[i].shown));
        hf_buf_free(&buf);
    }
}

/* Given values on both sides of a bound, each is counted in its bucket and in all above. */
static void histograms_are_cumulative(void **state)
{
    struct hf_histogram h = {0};
    struct hf_buf buf;
    struct hf_exposition e = {.out = &buf};
    const char *text;

    (void)state;
    for (const uint64_t *v = (const uint64_t[]){0, 1, 2, 3, 4, 5, UINT64_MAX / 2}; *v < 100; v++)
        hf_histogram_observe(&h, *v);
    hf_histogram_observe(&h, UINT64_C(1) << 50);
    hf_buf_init(&buf, &hf_alloc_heap);
    hf_expose_histogram(&e, "x", "l=\"1\"", &h, 0, 2, 1);
    assert_int_equal(hf_buf_append(&buf, "", 1), 0);
    text = (const char *)hf_buf_view(&buf).data;
    assert_non_null(strstr(text, "x_bucket{l=\"1\",le=\"1\"} 2\n"));
    assert_non_null(strstr(text, "x_bucket{l=\"1\",le=\"2\"} 3\n"));
    assert_non_null(strstr(text, "x_bucket{l=\"1\",le=\"4\"} 5\n"));
    assert_non_null(strstr(text, "x_bucket{l=\"1\",le=\"+Inf\"} 7\n"));
    assert_non_null(strstr(text, "x_count{l=\"1\"} 7\n"));
    assert_false(e.failed);
    hf_buf_free(&buf);
}

/* Given no memory for the text, the call fails and does not show half of it. */
static void metrics_without_memory_fail(void **state)
{
    struct faulty_heap heap = {.after = 0};
    struct hf_alloc alloc = faulty_alloc(&heap);
    struct hf_buf buf;
    struct hf_exposition e = {.out = &buf};

    (void)state;
    hf_buf_init(&buf, &alloc);
    hf_expose_counter(&e, "x_total", "X.", 1);
    assert_true(e.failed);
    hf_buf_free(&buf);
}

static void token_is_the_whole_first_line(void **state)
{
    char token[257];
    char path[64];

    (void)state;
    assert_int_equal(hf_token_read("", "key", token), 0);
    assert_string_equal(token, "");
    assert_int_equal(hf_token_read(file_with("0123456789abcdef  \nmore\n", path), "key", token), 0);
    unlink(path);
    assert_true(hf_token_matches(token, "Bearer 0123456789abcdef"));
    assert_true(hf_token_matches(token, "bearer 0123456789abcdef"));
    assert_false(hf_token_matches(token, "Bearer 0123456789abcdeF"));
    assert_false(hf_token_matches(token, "Bearer 0123456789abcde"));
    assert_false(hf_token_matches(token, "Bearer 0123456789abcdef0"));
    assert_false(hf_token_matches(token, "0123456789abcdef"));
    assert_false(hf_token_matches(token, NULL));
    assert_int_equal(hf_token_read(file_with("short\n", path), "key", token), HF_EINVAL);
    unlink(path);
    assert_int_equal(hf_token_read("/nonexistent", "key", token), HF_EINVAL);
}

/* Given as many sessions as there may be, a new session of a reader ends one of a reader, never an
 * operator's. */
static void sessions_give_way_by_level(void **state)
{
    static struct sessions sessions;
    char first[SESSION_ID_MAX + 8];
    char header[SESSION_ID_MAX + 8];

    (void)state;
    memset(&sessions, 0, sizeof(sessions));
    for (int i = 0; i < SESSIONS_MAX - 1; i++) {
        const char *id = hf_sessions_begin(&sessions, ACCESS_CHANGE, 1000 + (uint64_t)i);
        snprintf(i == 0 ? first : header, sizeof(header), "Bearer %s", id);
    }
    snprintf(header, sizeof(header), "Bearer %s", hf_sessions_begin(&sessions, ACCESS_FILES, 5000));
    assert_int_equal(hf_sessions_level(&sessions, first, 6000), ACCESS_CHANGE);
    assert_int_equal(hf_sessions_level(&sessions, header, 6000), ACCESS_FILES);
    assert_non_null(hf_sessions_begin(&sessions, ACCESS_FILES, 7000));
    assert_int_equal(hf_sessions_level(&sessions, header, 8000), ACCESS_NONE);
    assert_int_equal(hf_sessions_level(&sessions, first, 8000), ACCESS_CHANGE);
    assert_int_equal(hf_sessions_level(&sessions, first, 8000 + SESSION_IDLE_MS - 1),
                     ACCESS_CHANGE);
    assert_int_equal(hf_sessions_level(&sessions, first, 8000 + 3ULL * SESSION_IDLE_MS),
                     ACCESS_NONE);
    first[10] ^= 1;
    assert_int_equal(hf_sessions_level(&sessions, first, 8000), ACCESS_NONE);
    assert_int_equal(hf_sessions_level(&sessions, NULL, 8000), ACCESS_NONE);
}

/* SEC-10: given the values that a Host header may have, only this host's own names and addresses
 * pass, as a whole. */
static void host_names_only_us(void **state)
{
    static const char *const ours[] = {"localhost",        "LocalHost:8049", "127.0.0.1",
                                       "127.0.0.1:1",      "127.9.9.9",      "[::1]",
                                       "[::1]:8049",       "192.0.2.1:8049", "files.example",
                                       "FILES.example:80", "files",          "files:8049"};
    static const char *const others[] = {"",
                                         "localhost.evil.example",
                                         "localhost:8049.evil.example",
                                         "localhost:",
                                         "localhos",
                                         "localhost.",
                                         "localhost:123456",
                                         "192.0.2.2",
                                         "192.0.2.1.evil.example",
                                         "[::1",
                                         "[::1]x",
                                         "[::1]:",
                                         "[::2]",
                                         "[localhost]",
                                         "files.example.evil.example",
                                         "file",
                                         "files.",
                                         "files.exampl",
                                         ":8049",
                                         "[]"};
    struct hf_addr local;

    (void)state;
    assert_int_equal(hf_addr_parse("192.0.2.1", &local), 0);
    for (size_t i = 0; i < HF_COUNT_OF(ours); i++)
        assert_true(hf_host_names_us(ours[i], &local, "files.example", NULL));
    for (size_t i = 0; i < HF_COUNT_OF(others); i++)
        assert_false(hf_host_names_us(others[i], &local, "files.example", NULL));
    assert_false(hf_host_names_us(NULL, &local, "files.example", NULL));
    assert_false(hf_host_names_us("192.0.2.1", NULL, "files.example", NULL));
}

/* SEC-10: given other names of this server, each of them names it, and no part of one does. */
static void other_names_of_the_server(void **state)
{
    static const char *const NAMES =
        " nfs.storage.svc, proxy.example  third.example,fourth.example";

    (void)state;
    assert_true(hf_host_names_us("proxy.example", NULL, "files.example", NAMES));
    assert_true(hf_host_names_us("NFS.storage.svc:8049", NULL, "files.example", NAMES));
    assert_true(hf_host_names_us("third.example", NULL, "files.example", NAMES));
    assert_true(hf_host_names_us("fourth.example", NULL, "files.example", NAMES));
    assert_false(hf_host_names_us("nfs", NULL, "files.example", NAMES));
    assert_false(hf_host_names_us("nfs.storage.svc proxy.example", NULL, "files.example", NAMES));
    assert_false(hf_host_names_us("proxy.example.evil.example", NULL, "files.example", NAMES));
    assert_false(hf_host_names_us("proxy.exampl", NULL, "files.example", NAMES));
    assert_false(hf_host_names_us("anything", NULL, "files.example", " "));
}

/* Given a file that other users can read, the secret is refused, and the reason says what to do. */
static void secret_files_are_private(void **state)
{
    static const struct {
        mode_t mode;
        int rv;
    } cases[] = {{0600, 0},         {0400, 0},         {0640, 0},
                 {0644, HF_EINVAL}, {0620, HF_EINVAL}, {0601, HF_EINVAL}};
    char path[64];
    char text[32];
    const char *reason;

    (void)state;
    (void)file_with("secret line \t\nmore\n", path);
    for (size_t i = 0; i < HF_COUNT_OF(cases); i++) {
        assert_int_equal(chmod(path, cases[i].mode), 0);
        assert_int_equal(hf_secret_read(path, text, sizeof(text), &reason), cases[i].rv);
        assert_string_equal(text, cases[i].rv == 0 ? "secret line" : "");
        assert_true(cases[i].rv == 0 || strstr(reason, "chmod 0600"));
    }
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(hf_secret_read(path, text, 8, &reason), HF_EINVAL);
    assert_non_null(strstr(reason, "too long"));
    unlink(path);
    assert_int_equal(hf_secret_read("/dev/null", text, sizeof(text), &reason), HF_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_names_handles),
        cmocka_unit_test(map_keeps_what_it_had),
        cmocka_unit_test(answers_of_a_namer_are_checked),
        cmocka_unit_test(hex_is_even_and_bounded),
        cmocka_unit_test(filters_find),
        cmocka_unit_test(rows_are_written_as_json),
        cmocka_unit_test(a_row_without_memory_fails),
        cmocka_unit_test(a_reconnect_window_is_shown),
        cmocka_unit_test(histograms_are_cumulative),
        cmocka_unit_test(metrics_without_memory_fail),
        cmocka_unit_test(token_is_the_whole_first_line),
        cmocka_unit_test(sessions_give_way_by_level),
        cmocka_unit_test(host_names_only_us),
        cmocka_unit_test(other_names_of_the_server),
        cmocka_unit_test(secret_files_are_private),
    };
    return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
