/* The parts of holdfast-namesd that need no file: decoding handles, lines, places; and base/quote.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/quote.h"
#include "handles/exports.h"
#include "handles/handle.h"
#include "handles/places.h"
#include "namesd/request.h"
#include "namesd/settings.h"

static struct hf_bytes from_hex(const char *hex)
{
    static uint8_t bytes[256];
    int len = hf_hex_decode(hex, strlen(hex), bytes, sizeof(bytes));

    assert_true(len > 0);
    return hf_bytes(bytes, (size_t)len);
}

/* A number in a handle has the byte order of its server, which is this host. */
static uint32_t number_of(const char bytes[4])
{
    uint32_t n;

    memcpy(&n, bytes, sizeof(n));
    return n;
}

/* ---- handles ---- */

/* Given a handle that Ganesha 4.3 made on ext4 and one on tmpfs, the kernel's part is found. */
static void reads_ganesha(void **state)
{
    struct hf_handle out[HF_HANDLE_READINGS_MAX];

    (void)state;
    assert_int_equal(
        hf_handle_read(from_hex("430000011244fa74bd090b5848fc012d20a700462d7e1400"), out), 1);
    assert_int_equal(out[0].kind, HF_HANDLE_KERNEL);
    assert_int_equal(out[0].fsid.kind, HF_FSID_STATFS);
    assert_int_equal(out[0].fsid.statfs[0], number_of("\xfa\x74\xbd\x09"));
    assert_int_equal(out[0].fsid.statfs[1], number_of("\x0b\x58\x48\xfc"));
    assert_int_equal(out[0].type, 1);
    assert_int_equal(out[0].fid.len, 8);
    assert_memory_equal(out[0].fid.data, "\x2d\x20\xa7\x00\x46\x2d\x7e\x14", 8);
    assert_int_equal(
        hf_handle_read(from_hex("4300000116443612c94a00efb78701c364fe2b220b00000000000000"), out),
        1);
    assert_int_equal(out[0].fid.len, 12);
}

/* NAM-02: ext4, XFS and btrfs write the generation into their handles, tmpfs in a form of its own.
 */
static void generations_are_found(void **state)
{
    static const uint8_t FID[20] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                    11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
    uint64_t generation = 0;

    (void)state;
    assert_true(hf_handle_generation(0x01, hf_bytes(FID, 8), &generation));
    assert_int_equal(generation, number_of("\5\6\7\10"));
    assert_true(hf_handle_generation(0x81, hf_bytes(FID, 12), &generation));
    assert_int_equal(generation, number_of("\11\12\13\14"));
    assert_true(hf_handle_generation(0x4d, hf_bytes(FID, 20), &generation));
    assert_int_equal(generation, number_of("\21\22\23\24"));
    assert_false(hf_handle_generation(0x01, hf_bytes(FID, 12), &generation));
    assert_false(hf_handle_generation(0x02, hf_bytes(FID, 8), &generation));
}

static void put_type(uint8_t *at, size_t size, uint32_t type)
{
    uint8_t narrow = (uint8_t)type;
    uint16_t wide = (uint16_t)type;

    if (size == 4)
        memcpy(at, &type, sizeof(type));
    else if (size == 2)
        memcpy(at, &wide, sizeof(wide));
    else
        *at = narrow;
}

/* Tries each kind of fsid and each width of the type, as FSAL_VFS writes them. */
static void reads_every_form_of_ganesha(void **state)
{
    static const struct {
        unsigned flags, fsid, type;
        enum hf_fsid_kind kind;
    } FORMS[] = {
        {0x40, 0, 1, HF_FSID_ANY},   {0x41, 8, 1, HF_FSID_ANY},    {0x42, 8, 1, HF_FSID_ANY},
        {0x83, 16, 2, HF_FSID_UUID}, {0xc4, 8, 4, HF_FSID_STATFS}, {0x45, 8, 1, HF_FSID_DEVICE},
    };
    struct hf_handle out[HF_HANDLE_READINGS_MAX];

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(FORMS); i++) {
        uint8_t bytes[64] = {0x43, 0, 0, 7};
        size_t len = 6 + FORMS[i].fsid;

        bytes[5] = (uint8_t)FORMS[i].flags;
        put_type(bytes + len, FORMS[i].type, 0x81); /* btrfs and XFS set this bit */
        len += FORMS[i].type;
        memcpy(bytes + len, "inodegen", 8);
        bytes[4] = (uint8_t)(len + 8 - 5);
        assert_int_equal(hf_handle_read(hf_bytes(bytes, len + 8), out), 1);
        assert_int_equal(out[0].fsid.kind, FORMS[i].kind);
        assert_int_equal(out[0].type, 0x81);
        assert_int_equal(out[0].fid.len, 8);
        bytes[5] |= 0x20; /* a handle of an object for which the kernel has none */
        assert_int_equal(hf_handle_read(hf_bytes(bytes, len + 8), out), 0);
    }
}

/* Each kind of fsid of the kernel's nfsd has its own length and its own meaning. */
static void reads_nfsd(void **state)
{
    static const size_t LENGTHS[] = {8, 4, 12, 8, 8, 8, 16, 24};
    struct hf_handle out[HF_HANDLE_READINGS_MAX];
    uint32_t number = htonl(8 << 16 | 17);
    uint8_t bytes[64];

    (void)state;
    for (unsigned kind = 0; kind < HF_COUNT_OF(LENGTHS); kind++) {
        size_t len = 4 + LENGTHS[kind];

        memset(bytes, 0, sizeof(bytes));
        bytes[0] = 1;
        bytes[2] = (uint8_t)kind;
        bytes[3] = 1;
        memcpy(bytes + len, "inodegen", 8);
        assert_true(hf_handle_read(hf_bytes(bytes, len + 8), out) >= 1);
        assert_int_equal(out[0].kind, HF_HANDLE_KERNEL);
        assert_memory_equal(out[0].fid.data, "inodegen", 8);
        bytes[3] = 0; /* the root of an export, which no client locks */
        assert_int_equal(hf_handle_read(hf_bytes(bytes, len), out), 0);
    }
    memset(bytes, 0, sizeof(bytes));
    memcpy(bytes, "\1\0\0\1", 4);
    memcpy(bytes + 4, &number, 4);
    memcpy(bytes + 12, "inodegen", 8);
    assert_int_equal(hf_handle_read(hf_bytes(bytes, 20), out), 1);
    assert_int_equal(out[0].fsid.kind, HF_FSID_DEVICE);
    assert_true(out[0].fsid.device == makedev(8, 17));
    bytes[2] = 3;
    number = 17 | 8 << 8; /* the form that the kernel itself uses */
    memcpy(bytes + 4, &number, 4);
    assert_int_equal(hf_handle_read(hf_bytes(bytes, 20), out), 1);
    assert_true(out[0].fsid.device == makedev(8, 17));
}

/* Given handles that the nfsd of Linux 6.1 made: by fsid=, by uuid, and with subtree_check. */
static void reads_real_nfsd(void **state)
{
    struct hf_handle out[HF_HANDLE_READINGS_MAX];

    (void)state;
    assert_int_equal(hf_handle_read(from_hex("0100010107000000140000001b6e83f7"), out), 1);
    assert_int_equal(out[0].fsid.kind, HF_FSID_ANY);
    assert_memory_equal(out[0].fid.data, "\x14\0\0\0\x1b\x6e\x83\xf7", 8);
    assert_int_equal(
        hf_handle_read(from_hex("010007010210000000000000e0d3459d6eb64106a69b98274647f64a"
                                "18000000b3ee87c4"),
                       out),
        1);
    assert_int_equal(out[0].fsid.kind, HF_FSID_UUID);
    assert_memory_equal(out[0].fsid.uuid, "\xe0\xd3\x45\x9d", 4);
    assert_int_equal(out[0].type, 1);
    assert_int_equal(out[0].fid.len, 8);
    assert_int_equal(
        hf_handle_read(from_hex("010007020310000000000000e0d3459d6eb64106a69b98274647f64a"
                                "1b0000007a6a49711a000000cf4be53e"),
                       out),
        1);
    assert_int_equal(out[0].type, 2);
    assert_int_equal(out[0].fid.len, 16);
}

static size_t put_unfs3(uint8_t *bytes, size_t ino_size, size_t header, uint64_t ino)
{
    uint32_t device = 0x801, generation = 77, narrow = (uint32_t)ino;

    memset(bytes, 0, 64);
    memcpy(bytes, &device, 4);
    memcpy(bytes + 4, ino_size == 8 ? (const void *)&ino : &narrow, ino_size);
    memcpy(bytes + 4 + ino_size, &generation, 4);
    bytes[header - 1] = 3;
    memcpy(bytes + header, "ab", 2);
    bytes[header + 2] = hf_handle_hash(ino);
    return header + 3;
}

/* Tries the three layouts that unfs3 has had; the last hash must be that of the inode. */
static void reads_unfs3(void **state)
{
    static const size_t FORMS[][2] = {{8, 21}, {8, 17}, {4, 13}};
    struct hf_handle out[HF_HANDLE_READINGS_MAX];
    uint8_t bytes[64];

    (void)state;
    assert_int_equal(hf_handle_hash(0x0102), 3);
    assert_int_equal(hf_handle_hash(0x0100000000000001), 0);
    for (size_t i = 0; i < HF_COUNT_OF(FORMS); i++) {
        size_t len = put_unfs3(bytes, FORMS[i][0], FORMS[i][1], 123456);

        assert_int_equal(hf_handle_read(hf_bytes(bytes, len), out), 1);
        assert_int_equal(out[0].kind, HF_HANDLE_INODE);
        assert_int_equal(out[0].ino, 123456);
        assert_int_equal(out[0].device_low, 0x801);
        assert_int_equal(out[0].generation, 77);
        assert_int_equal(out[0].hashes.len, 3);
        bytes[len - 1] ^= 1;
        assert_int_equal(hf_handle_read(hf_bytes(bytes, len), out), 0);
    }
}

/* A handle that is cut anywhere, lengthened, or made of one byte repeated is never read beyond its
 * end. */
static void stays_inside_the_handle(void **state)
{
    const struct hf_bytes whole = from_hex("430000011244fa74bd090b5848fc012d20a700462d7e1400");
    struct hf_handle out[HF_HANDLE_READINGS_MAX];
    uint8_t bytes[65];

    (void)state;
    for (size_t len = 0; len < 23; len++)
        assert_int_equal(hf_handle_read(hf_bytes(whole.data, len), out), 0);
    for (unsigned byte = 0; byte < 256; byte++) {
        memset(bytes, (int)byte, sizeof(bytes));
        for (size_t len = 0; len <= sizeof(bytes); len++) {
            size_t n = hf_handle_read(hf_bytes(bytes, len), out);

            for (size_t i = 0; i < n; i++) {
                assert_true(out[i].fid.len <= len && out[i].hashes.len <= len);
                assert_true(len <= HF_HANDLE_BYTES_MAX);
            }
        }
    }
}

/* ---- file systems ---- */

/* A uuid is folded as nfsd folds it; a device number, or the number of statfs, must be equal. */
static void fits_its_own_file_system(void **state)
{
    struct hf_root root = {.device = makedev(8, 1), .statfs = {0x11223344, 0x55667788}};
    struct hf_fsid fsid = {.kind = HF_FSID_UUID, .uuid_len = 8};

    (void)state;
    for (uint8_t i = 0; i < 16; i++)
        root.uuid[i] = (uint8_t)(i * 17);
    root.has_uuid = true;
    for (size_t i = 0; i < 8; i++)
        fsid.uuid[i] = root.uuid[i] ^ root.uuid[i + 8];
    assert_int_equal(hf_root_fits(&root, &fsid), 2);
    fsid.uuid[0] ^= 1;
    assert_int_equal(hf_root_fits(&root, &fsid), 1);
    /* The uuid that mountd makes of statfs. */
    memcpy(fsid.uuid, "\x11\x22\x33\x44\x55\x66\x77\x88", 8);
    assert_int_equal(hf_root_fits(&root, &fsid), 2);
    fsid = (struct hf_fsid){.kind = HF_FSID_DEVICE, .device = makedev(8, 1)};
    assert_int_equal(hf_root_fits(&root, &fsid), 2);
    fsid.device = makedev(8, 2);
    assert_int_equal(hf_root_fits(&root, &fsid), 0);
    fsid = (struct hf_fsid){.kind = HF_FSID_STATFS, .statfs = {0x11223344, 0x55667788}};
    assert_int_equal(hf_root_fits(&root, &fsid), 2);
    fsid.statfs[1]++;
    assert_int_equal(hf_root_fits(&root, &fsid), 0);
    fsid = (struct hf_fsid){.kind = HF_FSID_ANY};
    assert_int_equal(hf_root_fits(&root, &fsid), 1);
}

/* ---- lines ---- */

static void reads_lines(void **state)
{
    static const char *const BAD[] = {
        "",          "path",       "path 1",      "path 1 ",    "path x 0a", "path 1 0",
        "path 1 zz", "path 1 0a ", "handle 1 0a", " path 1 0a", "path  0a",  "holdfast-names 2"};
    struct hf_namesd_request request;
    char line[400];

    (void)state;
    hf_namesd_request_read(hf_bytes_str("holdfast-names 1"), &request);
    assert_int_equal(request.kind, HF_NAMESD_REQUEST_GREETING);
    hf_namesd_request_read(hf_bytes_str("path 18446744073709551615 0aFf"), &request);
    assert_int_equal(request.kind, HF_NAMESD_REQUEST_PATH);
    assert_string_equal(request.id, "18446744073709551615");
    assert_int_equal(request.len, 2);
    for (size_t i = 0; i < HF_COUNT_OF(BAD); i++) {
        hf_namesd_request_read(hf_bytes_str(BAD[i]), &request);
        assert_int_equal(request.kind, HF_NAMESD_REQUEST_BAD);
    }
    memset(line, '0', sizeof(line));
    memcpy(line, "path 7 ", 7);
    hf_namesd_request_read(hf_bytes(line, 7 + 128), &request);
    assert_int_equal(request.kind, HF_NAMESD_REQUEST_PATH);
    hf_namesd_request_read(hf_bytes(line, 7 + 130), &request);
    assert_int_equal(request.kind, HF_NAMESD_REQUEST_BAD);
    assert_string_equal(request.id, "7");
}

static void answers_in_one_line(void **state)
{
    struct hf_namesd_request request = {.kind = HF_NAMESD_REQUEST_PATH, .id = "12"};
    char deep[HF_PATH_BYTES_MAX];
    struct hf_buf out;

    (void)state;
    hf_buf_init(&out, &hf_alloc_heap);
    assert_int_equal(
        hf_namesd_request_answer(&out, &request, HF_ANSWER_NAMED, hf_bytes_str("/a b\n")), 0);
    assert_int_equal(hf_namesd_request_answer(&out, &request, HF_ANSWER_DELETED, hf_bytes("", 0)),
                     0);
    assert_int_equal(hf_namesd_request_refuse(&out, &request), 0);
    assert_int_equal(hf_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)hf_buf_view(&out).data,
                        "12 named /a b\\x0a\n12 deleted\n12 error this line is not understood\n");
    hf_buf_clear(&out);
    /* The longest name possible, in which each byte becomes four. */
    memset(deep, '\n', sizeof(deep));
    assert_int_equal(
        hf_namesd_request_answer(&out, &request, HF_ANSWER_NAMED, hf_bytes(deep, 4095)), 0);
    assert_int_equal(hf_buf_len(&out), strlen("12 named \n") + 4 * 4095);
    hf_buf_free(&out);
}

/* ---- quoted paths ---- */

static void quotes_what_cannot_be_seen(void **state)
{
    static const char *const PAIRS[][2] = {
        {"/srv/ü b", "/srv/ü b"},
        {"/a\\x0a", "/a\\x5cx0a"},
        {"/a\n\x7f\x1b[31m", "/a\\x0a\\x7f\\x1b[31m"},
        {"/\xff\xfe", "/\\xff\\xfe"},
        {"/\xe2\x80\xae", "/\\xe2\\x80\\xae"}, /* right-to-left override */
    };
    char out[64], back[64];

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(PAIRS); i++) {
        int len = hf_path_quote(hf_bytes_str(PAIRS[i][0]), out, sizeof(out));

        assert_int_equal(len, strlen(PAIRS[i][1]));
        assert_string_equal(out, PAIRS[i][1]);
        assert_int_equal(hf_path_unquote(hf_bytes_str(out), back, sizeof(back)),
                         strlen(PAIRS[i][0]));
        assert_string_equal(back, PAIRS[i][0]);
    }
    assert_int_equal(hf_path_quote(hf_bytes_str("/1234567"), out, 8), HF_EINVAL);
    assert_int_equal(hf_path_quote(hf_bytes_str("/123456"), out, 8), 7);
    assert_int_equal(hf_path_unquote(hf_bytes_str("/a\\"), out, 8), HF_EINVAL);
    assert_int_equal(hf_path_unquote(hf_bytes_str("/a\\x0"), out, 8), HF_EINVAL);
    assert_int_equal(hf_path_unquote(hf_bytes_str("/a\\x00"), out, 8), HF_EINVAL);
    assert_int_equal(hf_path_unquote(hf_bytes_str("/a\\n23"), out, 8), HF_EINVAL);
}

/* ---- places ---- */

/* A handle that a whole walk does not find is no longer searched for; one that came during the walk
 * still is. */
static void gives_up_what_a_whole_walk_missed(void **state)
{
    struct hf_places places;

    (void)state;
    assert_int_equal(hf_places_init(&places), 0);
    hf_places_want(&places, 1, 100);
    places.round++; /* a walk begins */
    hf_places_want(&places, 1, 200);
    hf_places_want(&places, 2, 100);
    hf_places_put(&places, 2, 100, "/found");
    assert_true(hf_places_may_want(&places, 100));
    hf_places_give_up(&places);
    assert_false(hf_places_may_want(&places, 100));
    assert_true(hf_places_may_want(&places, 200));
    assert_string_equal(hf_places_get(&places, 1, 100)->path, "");
    assert_string_equal(hf_places_get(&places, 2, 100)->path, "/found");
    hf_places_free(&places);
}

static void remembers_a_bounded_number(void **state)
{
    struct hf_places places;

    (void)state;
    assert_int_equal(hf_places_init(&places), 0);
    for (ino_t ino = 1; ino <= HF_PLACES_WANTED_MAX + 10; ino++)
        hf_places_want(&places, 1, ino);
    assert_int_equal(places.n_wanted, HF_PLACES_WANTED_MAX);
    assert_null(hf_places_get(&places, 1, 10));
    assert_non_null(hf_places_get(&places, 1, 11));
    for (ino_t ino = 1; ino <= HF_PLACES_FOUND_MAX + 10; ino++)
        hf_places_put(&places, 2, ino, "/f");
    assert_int_equal(places.n_found, HF_PLACES_FOUND_MAX);
    hf_places_free(&places);
}

/* ---- settings ---- */

static void refuses_settings_that_make_no_sense(void **state)
{
    static const char *const BAD[][2] = {{"export", "srv"},     {"search", "many"},
                                         {"search", "-1"},      {"socket", "relative"},
                                         {"log_level", "loud"}, {"exports", "/srv"}};
    char error[HF_SETTINGS_ERROR_MAX];
    struct hf_namesd_settings settings;
    struct hf_settings keys;
    struct hf_exports exports;

    (void)state;
    hf_exports_init(&exports);
    keys = hf_namesd_settings_init(&settings, &exports);
    for (size_t i = 0; i < HF_COUNT_OF(BAD); i++) {
        error[0] = '\0';
        assert_int_equal(hf_settings_set(&keys, BAD[i][0], BAD[i][1], error), HF_EINVAL);
        assert_true(error[0]);
    }
    for (size_t i = 0; i < HF_EXPORTS_MAX; i++)
        assert_int_equal(hf_settings_set(&keys, "export", "/srv", error), 0);
    assert_int_equal(hf_settings_set(&keys, "export", "/srv", error), HF_ELIMIT);
    hf_exports_free(&exports);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_ganesha),
        cmocka_unit_test(generations_are_found),
        cmocka_unit_test(reads_every_form_of_ganesha),
        cmocka_unit_test(reads_nfsd),
        cmocka_unit_test(reads_real_nfsd),
        cmocka_unit_test(reads_unfs3),
        cmocka_unit_test(stays_inside_the_handle),
        cmocka_unit_test(fits_its_own_file_system),
        cmocka_unit_test(reads_lines),
        cmocka_unit_test(answers_in_one_line),
        cmocka_unit_test(quotes_what_cannot_be_seen),
        cmocka_unit_test(gives_up_what_a_whole_walk_missed),
        cmocka_unit_test(remembers_a_bounded_number),
        cmocka_unit_test(refuses_settings_that_make_no_sense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
