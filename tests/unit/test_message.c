/* RPC messages: how a call is judged, what the answers look like, and how a reply is read. */
#include "unit.h"

#include "base/error.h"
#include "rpc/message.h"
#include "rpc_words.h"

enum { AUTH_SHORT = 2, RPCSEC_GSS = 6 };

static enum hf_rpc_verdict judge(const struct words *w, struct hf_rpc_header *header,
                                 size_t *args_offset)
{
    return hf_rpc_parse_call(view(w), header, args_offset);
}

/* A call with these credentials and an empty verifier. */
static enum hf_rpc_verdict judge_credentials(uint32_t flavor, const void *body, size_t len)
{
    struct words w = call_head(7, 100024, 1, 0);
    struct hf_rpc_header header;
    size_t args_offset;

    word(&w, flavor);
    opaque(&w, body, len);
    word(&w, 0);
    word(&w, 0);
    return judge(&w, &header, &args_offset);
}

static struct words auth_sys(size_t name_len, size_t n_gids)
{
    static const char name[512] = "client";
    struct words w = {.len = 0};

    word(&w, 12345); /* stamp */
    opaque(&w, name, name_len);
    word(&w, 1000);
    word(&w, 1000);
    word(&w, (uint32_t)n_gids);
    for (size_t i = 0; i < n_gids; i++)
        word(&w, (uint32_t)i);
    return w;
}

static enum hf_rpc_verdict judge_auth_sys(const struct words *body)
{
    return judge_credentials(HF_AUTH_SYS, body->bytes, body->len);
}

/* Given a call with AUTH_NONE, its header is read and the arguments begin behind the verifier. */
static void a_plain_call_is_understood(void **state)
{
    struct words w = plain_call(0xdeadbeef, 100021, 4, 2);
    struct hf_rpc_header header;
    size_t args_offset;

    (void)state;
    word(&w, 42); /* an argument */
    assert_int_equal(judge(&w, &header, &args_offset), HF_RPC_OK);
    assert_true(header.xid == 0xdeadbeef && header.prog == 100021);
    assert_true(header.vers == 4 && header.proc == 2);
    assert_int_equal(args_offset, HF_RPC_CALL_HEADER_SIZE);
    assert_int_equal(word_at(view(&w), args_offset / 4), 42);
}

/* A call that we write can be read by our own decoder. */
static void our_own_call_is_understood(void **state)
{
    struct hf_rpc_header sent = {9, 100024, 1, 6};
    uint8_t bytes[HF_RPC_CALL_HEADER_SIZE];
    struct hf_rpc_header header;
    size_t args_offset;

    (void)state;
    hf_rpc_put_call(bytes, &sent);
    assert_int_equal(hf_rpc_parse_call(hf_bytes(bytes, sizeof(bytes)), &header, &args_offset),
                     HF_RPC_OK);
    assert_memory_equal(&header, &sent, sizeof(sent));
    assert_int_equal(args_offset, sizeof(bytes));
}

/* A call cut anywhere before its arguments has nothing to answer to, and is dropped. */
static void a_call_cut_short_is_dropped(void **state)
{
    struct words body = auth_sys(6, 3);
    struct words w = call_head(7, 100024, 1, 0);
    struct hf_rpc_header header;
    size_t args_offset;

    (void)state;
    word(&w, HF_AUTH_SYS);
    opaque(&w, body.bytes, body.len);
    word(&w, 0);
    opaque(&w, "verifier", 8);
    assert_int_equal(judge(&w, &header, &args_offset), HF_RPC_OK);
    assert_int_equal(args_offset, w.len);
    for (size_t len = 0; len < w.len; len++) {
        enum hf_rpc_verdict verdict =
            hf_rpc_parse_call(hf_bytes(w.bytes, len), &header, &args_offset);
        assert_int_equal(verdict, HF_RPC_DROP);
    }
}

static void what_is_no_call_is_dropped(void **state)
{
    struct hf_rpc_header header;
    size_t args_offset;

    (void)state;
    for (uint32_t type = 1; type < 4; type++) {
        struct words w = plain_call(7, 100024, 1, 0);
        uint32_t other = htobe32(type);

        memcpy(w.bytes + 4, &other, 4);
        assert_int_equal(judge(&w, &header, &args_offset), HF_RPC_DROP);
    }
}

/* RFC 5531, section 9: only version 2 of RPC is accepted; the xid is known, so the refusal can be
 * sent. */
static void another_rpc_version_is_told_apart(void **state)
{
    static const uint32_t versions[] = {0, 1, 3, UINT32_MAX};
    struct hf_rpc_header header;
    size_t args_offset;

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(versions); i++) {
        struct words w = {.len = 0};

        word(&w, 77);
        word(&w, 0);
        word(&w, versions[i]); /* what follows the version is unknown, so the test sends nothing */
        assert_int_equal(judge(&w, &header, &args_offset), HF_RPC_BAD_VERSION);
        assert_int_equal(header.xid, 77);
    }
}

static void sound_auth_sys_is_taken(void **state)
{
    static const size_t names[] = {0, 1, 6, HF_RPC_MACHINE_NAME_MAX};

    (void)state;
    for (size_t i = 0; i < HF_COUNT_OF(names); i++) {
        for (size_t gids = 0; gids <= HF_RPC_GIDS_MAX; gids += 8) {
            struct words body = auth_sys(names[i], gids);
            assert_int_equal(judge_auth_sys(&body), HF_RPC_OK);
        }
    }
}

/* AUTH_SYS credentials that are too long, cut, or have bytes behind their end are refused by
 * AUTH_BADCRED. */
static void unsound_auth_sys_is_refused(void **state)
{
    struct words body = auth_sys(HF_RPC_MACHINE_NAME_MAX + 1, 0);

    (void)state;
    assert_int_equal(judge_auth_sys(&body), HF_RPC_BAD_CRED);
    body = auth_sys(6, HF_RPC_GIDS_MAX + 1);
    assert_int_equal(judge_auth_sys(&body), HF_RPC_BAD_CRED);
    body = auth_sys(6, 2);
    word(&body, 0);
    assert_int_equal(judge_auth_sys(&body), HF_RPC_BAD_CRED);
    body = auth_sys(6, 2);
    for (size_t len = 0; len < body.len; len++)
        assert_int_equal(judge_credentials(HF_AUTH_SYS, body.bytes, len), HF_RPC_BAD_CRED);
}

/* A length is checked before it is used: a name of 2^32-1 bytes, or as many groups, is refused. */
static void lengths_in_auth_sys_are_not_believed(void **state)
{
    struct words body = auth_sys(4, 0);

    (void)state;
    memset(body.bytes + 4, 0xff, 4);
    assert_int_equal(judge_auth_sys(&body), HF_RPC_BAD_CRED);
    body = auth_sys(4, 0);
    memset(body.bytes + body.len - 4, 0xff, 4);
    assert_int_equal(judge_auth_sys(&body), HF_RPC_BAD_CRED);
}

static void other_flavours_are_too_weak(void **state)
{
    (void)state;
    assert_int_equal(judge_credentials(AUTH_SHORT, "12345678", 8), HF_RPC_TOO_WEAK);
    assert_int_equal(judge_credentials(RPCSEC_GSS, "12345678", 8), HF_RPC_TOO_WEAK);
    assert_int_equal(judge_credentials(390000, "", 0), HF_RPC_TOO_WEAK);
}

/* The body of AUTH_NONE is undefined, so it is ignored. */
static void the_body_of_auth_none_does_not_matter(void **state)
{
    uint8_t body[HF_RPC_AUTH_BYTES_MAX] = {1, 2, 3};

    (void)state;
    assert_int_equal(judge_credentials(HF_AUTH_NONE, body, sizeof(body)), HF_RPC_OK);
}

/* 400 bytes are the most that credentials, or a verifier, may have (RFC 5531, section 8.2). */
static void credentials_and_verifier_are_bounded(void **state)
{
    uint8_t body[HF_RPC_AUTH_BYTES_MAX + 4] = {0};
    struct words w = call_head(7, 100024, 1, 0);
    struct hf_rpc_header header;
    size_t args_offset;

    (void)state;
    assert_int_equal(judge_credentials(HF_AUTH_NONE, body, HF_RPC_AUTH_BYTES_MAX + 1),
                     HF_RPC_BAD_CRED);
    word(&w, 0);
    word(&w, 0);
    word(&w, 0);
    opaque(&w, body, HF_RPC_AUTH_BYTES_MAX + 1);
    assert_int_equal(judge(&w, &header, &args_offset), HF_RPC_DROP);
}

static void expect_words(const uint8_t *bytes, size_t len, const uint32_t *words, size_t n)
{
    assert_int_equal(len, 4 * n);
    assert_true(len <= HF_RPC_REPLY_HEADER_MAX);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(word_at(hf_bytes(bytes, len), i), words[i]);
}

#define EXPECT_WORDS(len, ...)                               \
    do {                                                     \
        const uint32_t words_[] = {__VA_ARGS__};             \
        expect_words(out, len, words_, HF_COUNT_OF(words_)); \
    } while (0)

/* Our replies have exactly the words that RFC 5531, section 9, gives. */
static void replies_are_written_as_specified(void **state)
{
    uint8_t out[HF_RPC_REPLY_HEADER_MAX];

    (void)state;
    EXPECT_WORDS(hf_rpc_put_success(out, 5), 5, 1, 0, 0, 0, 0);
    EXPECT_WORDS(hf_rpc_put_accepted(out, 5, HF_RPC_PROG_UNAVAIL), 5, 1, 0, 0, 0, 1);
    EXPECT_WORDS(hf_rpc_put_prog_mismatch(out, 5, 1, 4), 5, 1, 0, 0, 0, 2, 1, 4);
    EXPECT_WORDS(hf_rpc_put_accepted(out, 5, HF_RPC_PROC_UNAVAIL), 5, 1, 0, 0, 0, 3);
    EXPECT_WORDS(hf_rpc_put_accepted(out, 5, HF_RPC_GARBAGE_ARGS), 5, 1, 0, 0, 0, 4);
    EXPECT_WORDS(hf_rpc_put_accepted(out, 5, HF_RPC_SYSTEM_ERR), 5, 1, 0, 0, 0, 5);
    EXPECT_WORDS(hf_rpc_put_rpc_mismatch(out, 5), 5, 1, 1, 0, 2, 2);
    EXPECT_WORDS(hf_rpc_put_auth_error(out, 5, HF_RPC_AUTH_BADCRED), 5, 1, 1, 1, 1);
    EXPECT_WORDS(hf_rpc_put_auth_error(out, 5, HF_RPC_AUTH_TOOWEAK), 5, 1, 1, 1, 5);
}

static int read_reply(const uint8_t *bytes, size_t len)
{
    size_t offset = 12345;
    int rv = hf_rpc_parse_reply(hf_bytes(bytes, len), &offset);

    assert_true(rv == 0 ? offset == len : offset == 12345);
    return rv;
}

/* Given each kind of reply, the caller learns whether to ask elsewhere, give up, or read on. */
static void replies_are_told_apart(void **state)
{
    uint8_t out[HF_RPC_REPLY_HEADER_MAX];

    (void)state;
    assert_int_equal(read_reply(out, hf_rpc_put_success(out, 5)), 0);
    for (int stat = HF_RPC_PROG_UNAVAIL; stat <= HF_RPC_PROC_UNAVAIL; stat++) {
        size_t len = hf_rpc_put_accepted(out, 5, (enum hf_rpc_accept)stat);
        assert_int_equal(read_reply(out, len), HF_EUNREGISTERED);
    }
    assert_int_equal(read_reply(out, hf_rpc_put_accepted(out, 5, HF_RPC_GARBAGE_ARGS)), HF_EFORMAT);
    assert_int_equal(read_reply(out, hf_rpc_put_accepted(out, 5, HF_RPC_SYSTEM_ERR)), HF_EDENIED);
    assert_int_equal(read_reply(out, hf_rpc_put_accepted(out, 5, (enum hf_rpc_accept)6)),
                     HF_EFORMAT);
    assert_int_equal(read_reply(out, hf_rpc_put_rpc_mismatch(out, 5)), HF_EDENIED);
    assert_int_equal(read_reply(out, hf_rpc_put_auth_error(out, 5, HF_RPC_AUTH_BADCRED)),
                     HF_EDENIED);
}

/* A peer may send a verifier, which is skipped; the results begin behind it. */
static void a_verifier_in_a_reply_is_passed_over(void **state)
{
    struct words w = {.len = 0};
    size_t offset;

    (void)state;
    word(&w, 5);
    word(&w, HF_RPC_REPLY);
    word(&w, 0);
    word(&w, AUTH_SHORT);
    opaque(&w, "12345", 5);
    word(&w, HF_RPC_SUCCESS);
    word(&w, 99);
    assert_int_equal(hf_rpc_parse_reply(view(&w), &offset), 0);
    assert_int_equal(word_at(view(&w), offset / 4), 99);
    memset(w.bytes + 16, 0xff, 4); /* its length */
    assert_int_equal(hf_rpc_parse_reply(view(&w), &offset), HF_EFORMAT);
}

static void a_reply_cut_short_is_malformed(void **state)
{
    uint8_t out[HF_RPC_REPLY_HEADER_MAX];
    size_t whole = hf_rpc_put_success(out, 5);
    uint32_t xid;
    size_t offset;

    (void)state;
    for (size_t len = 0; len < whole; len++)
        assert_int_equal(hf_rpc_parse_reply(hf_bytes(out, len), &offset), HF_EFORMAT);
    for (size_t len = 0; len < 8; len++)
        assert_int_equal(hf_rpc_parse_reply_xid(hf_bytes(out, len), &xid), HF_EFORMAT);
    assert_int_equal(hf_rpc_parse_reply_xid(hf_bytes(out, 8), &xid), 0);
    assert_int_equal(xid, 5);
}

static void a_call_is_no_reply(void **state)
{
    struct words w = plain_call(5, 100024, 1, 0);
    uint32_t xid;
    size_t offset;

    (void)state;
    assert_int_equal(hf_rpc_parse_reply_xid(view(&w), &xid), HF_EFORMAT);
    assert_int_equal(hf_rpc_parse_reply(view(&w), &offset), HF_EFORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_call_is_understood),
        cmocka_unit_test(our_own_call_is_understood),
        cmocka_unit_test(a_call_cut_short_is_dropped),
        cmocka_unit_test(what_is_no_call_is_dropped),
        cmocka_unit_test(another_rpc_version_is_told_apart),
        cmocka_unit_test(sound_auth_sys_is_taken),
        cmocka_unit_test(unsound_auth_sys_is_refused),
        cmocka_unit_test(lengths_in_auth_sys_are_not_believed),
        cmocka_unit_test(other_flavours_are_too_weak),
        cmocka_unit_test(the_body_of_auth_none_does_not_matter),
        cmocka_unit_test(credentials_and_verifier_are_bounded),
        cmocka_unit_test(replies_are_written_as_specified),
        cmocka_unit_test(replies_are_told_apart),
        cmocka_unit_test(a_verifier_in_a_reply_is_passed_over),
        cmocka_unit_test(a_reply_cut_short_is_malformed),
        cmocka_unit_test(a_call_is_no_reply),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
