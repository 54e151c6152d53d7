/* The messages between the daemon and holdfast-keeper (COH-01), and handles of one file (COH-05).
 */
#include "unit.h"

#include <string.h>

#include "base/hex.h"
#include "handles/identity.h"
#include "keeper/protocol.h"

struct ops_message {
    struct hf_keeper_header header;
    struct hf_keeper_op ops[3];
};

static struct ops_message three_claims(void)
{
    struct ops_message m = {.header = {.message = HF_KEEPER_OPS, .count = 3}};

    for (unsigned i = 0; i < 3; i++)
        m.ops[i] = (struct hf_keeper_op){.id = i,
                                         .kind = HF_KEEPER_CLAIM,
                                         .mode = HF_KEEPER_SHARED,
                                         .handle_len = 4,
                                         .handle = "abcd"};
    return m;
}

static bool passes(const struct ops_message *m)
{
    struct hf_keeper_header header;

    return hf_keeper_check(m, sizeof(*m), false, &header) != NULL;
}

/* COH-01: a message with three claims is accepted, and no part or extension of it is. */
static void a_message_has_exactly_its_records(void **state)
{
    struct ops_message m = three_claims();
    struct hf_keeper_header header;

    (void)state;
    assert_ptr_equal(hf_keeper_check(&m, sizeof(m), false, &header), m.ops);
    assert_int_equal(header.count, 3);
    for (size_t len = 0; len < sizeof(m); len++)
        assert_null(hf_keeper_check(&m, len, false, &header));
    m.header.count = 2;
    assert_false(passes(&m));
    m.header.count = 0x80000003;
    assert_false(passes(&m));
    m.header.count = 0;
    assert_null(hf_keeper_check(&m, sizeof(header), false, &header));
}

/* COH-01: the keeper accepts no message that only it sends, and the daemon none of its own. */
static void each_side_sends_its_own_messages(void **state)
{
    struct ops_message m = three_claims();
    struct hf_keeper_header header;

    (void)state;
    assert_null(hf_keeper_check(&m, sizeof(m), true, &header));
    m.header.message = HF_KEEPER_HELD;
    assert_null(hf_keeper_check(&m, sizeof(m), false, &header));
    /* A message of claims is none of held locks. */
    assert_null(hf_keeper_check(&m, sizeof(m), true, &header));
    for (unsigned i = 0; i < 3; i++)
        m.ops[i].kind = HF_KEEPER_SET;
    assert_non_null(hf_keeper_check(&m, sizeof(m), true, &header));
    for (uint32_t kind = HF_KEEPER_EXPORTS + 1; kind < 300; kind++) {
        m.header = (struct hf_keeper_header){.message = kind, .count = 0};
        assert_null(hf_keeper_check(&m, sizeof(header), false, &header));
        assert_null(hf_keeper_check(&m, sizeof(header), true, &header));
    }
}

/* COH-01: one bad record spoils its message, wherever it is. */
static void a_bad_record_spoils_the_message(void **state)
{
    static const struct {
        uint8_t kind, mode, len;
    } BAD[] = {
        {HF_KEEPER_KINDS, HF_KEEPER_SHARED, 4},
        {HF_KEEPER_CLAIM, HF_KEEPER_NONE, 4},
        {HF_KEEPER_WAIT, HF_KEEPER_NONE, 4},
        {HF_KEEPER_TEST, HF_KEEPER_NONE, 4},
        {HF_KEEPER_CLAIM, HF_KEEPER_EXCLUSIVE + 1, 4},
        {HF_KEEPER_CLAIM, HF_KEEPER_SHARED, 0},
        {HF_KEEPER_CLAIM, HF_KEEPER_SHARED, HF_KEEPER_HANDLE_MAX + 1},
        {HF_KEEPER_CANCEL, HF_KEEPER_NONE, 4},
        {HF_KEEPER_RENEW, HF_KEEPER_NONE, 1},
        {HF_KEEPER_RELEASE_ALL, HF_KEEPER_NONE, 1},
        {HF_KEEPER_RESOLVE, HF_KEEPER_NONE, 0},
    };

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(BAD); i++) {
        for (unsigned at = 0; at < 3; at++) {
            struct ops_message m = three_claims();

            m.ops[at].kind = BAD[i].kind;
            m.ops[at].mode = BAD[i].mode;
            m.ops[at].handle_len = BAD[i].len;
            assert_false(passes(&m));
        }
    }
}

/* COH-01: a path is absolute and ends inside its record. */
static void a_path_ends(void **state)
{
    static struct {
        struct hf_keeper_header header;
        struct hf_keeper_path path;
    } m = {.header = {.message = HF_KEEPER_PATH, .count = 1}};
    struct hf_keeper_header header;

    (void)state;
    assert_null(hf_keeper_check(&m, sizeof(m), false, &header));
    m.path.path[0] = '/';
    assert_non_null(hf_keeper_check(&m, sizeof(m), false, &header));
    m.path.kind = HF_KEEPER_TAKE_BACK + 1;
    assert_null(hf_keeper_check(&m, sizeof(m), false, &header));
    m.path.kind = HF_KEEPER_TAKE_BACK;
    memset(m.path.path, '/', sizeof(m.path.path));
    assert_null(hf_keeper_check(&m, sizeof(m), false, &header));
}

/* Every status has words and a name of its own. */
static void every_status_has_a_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HF_KEEPER_STATUS_COUNT; i++) {
        assert_non_null(hf_keeper_status_name(i));
        assert_true(strlen(hf_keeper_status_text(i)) > 0);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(hf_keeper_status_name(i), hf_keeper_status_name(j));
    }
    assert_string_equal(hf_keeper_status_name(HF_KEEPER_WAS_LET_GO), "was_let_go");
    assert_string_equal(hf_keeper_status_name(HF_KEEPER_STATUS_COUNT), "unknown");
}

static bool is_one_file(const char *one, const char *two)
{
    uint8_t a[64], b[64], out_a[HF_HANDLE_BYTES_MAX], out_b[HF_HANDLE_BYTES_MAX];
    int len_a = hf_hex_decode(one, strlen(one), a, sizeof(a));
    int len_b = hf_hex_decode(two, strlen(two), b, sizeof(b));

    assert_true(len_a > 0 && len_b > 0);
    return hf_bytes_equal(hf_handle_identity(hf_bytes(a, (size_t)len_a), out_a),
                          hf_handle_identity(hf_bytes(b, (size_t)len_b), out_b));
}

/* COH-05: the export's number and the padding of a handle of Ganesha do not identify the file. */
static void two_exports_are_one_file(void **state)
{
    (void)state;
    assert_true(is_one_file("430000011244fa74bd090b5848fc012d20a700462d7e1400",
                            "430000021244fa74bd090b5848fc012d20a700462d7e1400"));
    assert_true(is_one_file("430000011244fa74bd090b5848fc012d20a700462d7e1400",
                            "4300ff021244fa74bd090b5848fc012d20a700462d7e14aa"));
    /* handles with another inode, generation or file system */
    assert_false(is_one_file("430000011244fa74bd090b5848fc012d20a700462d7e1400",
                             "430000011244fa74bd090b5848fc012e20a700462d7e1400"));
    assert_false(is_one_file("430000011244fa74bd090b5848fc012d20a700462d7e1400",
                             "430000011244fa74bd090b5848fc012d20a700462d7e1500"));
    assert_false(is_one_file("430000011244fa74bd090b5848fc012d20a700462d7e1400",
                             "430000011244fa74bd090c5848fc012d20a700462d7e1400"));
}

/* COH-05: handles of the kernel's nfsd, and handles that no decoder knows, identify themselves. */
static void other_handles_are_their_own(void **state)
{
    (void)state;
    assert_false(
        is_one_file("0100030100000000fd00000011112222", "0100030101000000fd00000011112222"));
    assert_false(is_one_file("43000001", "43000002"));
    assert_true(is_one_file("43000001", "43000001"));
    assert_false(is_one_file("430000010044", "430000020044"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_has_exactly_its_records),
        cmocka_unit_test(each_side_sends_its_own_messages),
        cmocka_unit_test(a_bad_record_spoils_the_message),
        cmocka_unit_test(a_path_ends),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(two_exports_are_one_file),
        cmocka_unit_test(other_handles_are_their_own),
    };

    return cmocka_run_group_tests_name("keeper protocol", tests, NULL, NULL);
}
