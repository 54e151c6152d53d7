/* Records and batches: what is written is what is read, and what is damaged is refused. */
#include "unit.h"

#include <string.h>

#include "base/error.h"
#include "core/record.h"

static struct hf_record_client sample_client(void)
{
    struct hf_record_client c = {
        .id = hf_record_first_id(3),
        .protocol = HF_PROTOCOL_NSM,
        .transport = HF_TRANSPORT_TCP,
        .name = hf_bytes_str("client.example"),
        .n_addrs = 2,
        .state = -7,
        .ttl_ms = 300000,
        .registered_at_ms = 1700000000123,
        .epoch = 3,
        .my_name = hf_bytes_str("me"),
        .prog = 100021,
        .vers = 3,
        .proc = 16,
        .priv = "0123456789abcde",
        .lives = {.n = 3, .n_left = 1, .states = {9, 7, 5}, .first_ids = {30, 20}},
    };
    hf_addr_parse("192.0.2.4", &c.addrs[0]);
    hf_addr_parse("2001:db8::4", &c.addrs[1]);
    hf_addr_parse("192.0.2.1", &c.local);
    hf_addr_parse("127.0.0.1", &c.callback_host);
    return c;
}

static struct hf_record_lock sample_lock(void)
{
    return (struct hf_record_lock){
        .id = hf_record_first_id(3) + 5,
        .client_id = hf_record_first_id(3),
        .export = hf_bytes_str("default"),
        .fh = hf_bytes("\x01\x00\x02", 3),
        .oh = hf_bytes_str("7@client"),
        .svid = -1,
        .first = 10,
        .last = UINT64_MAX,
        .exclusive = true,
        .acquired_at_ms = 1700000000999,
        .epoch = 3,
    };
}

static void records_round_trip(void **state)
{
    struct hf_record_client c = sample_client();
    struct hf_record_client c2;
    struct hf_record_lock l = sample_lock();
    struct hf_record_lock l2;
    struct hf_record_server s = {.epoch = 41, .clean = true};
    struct hf_record_server s2;
    struct hf_buf buf;

    (void)state;
    hf_buf_init(&buf, &hf_alloc_heap);
    assert_int_equal(hf_record_encode_client(&c, &buf), 0);
    assert_int_equal(hf_record_decode_client(hf_buf_view(&buf), &c2), 0);
    assert_true(hf_bytes_equal(c.name, c2.name) && hf_bytes_equal(c.my_name, c2.my_name));
    assert_int_equal(c2.n_addrs, 2);
    assert_true(hf_addr_equal(&c.addrs[1], &c2.addrs[1]));
    assert_true(hf_addr_equal(&c.callback_host, &c2.callback_host));
    assert_true(c2.id == c.id && c2.state == -7 && c2.proc == 16 && c2.ttl_ms == 300000);
    assert_memory_equal(c.priv, c2.priv, HF_PRIV_SIZE);
    assert_true(c2.lives.n == 3 && c2.lives.n_left == 1);
    assert_memory_equal(c.lives.states, c2.lives.states, sizeof(c.lives.states));
    assert_memory_equal(c.lives.first_ids, c2.lives.first_ids, sizeof(c.lives.first_ids));
    assert_int_equal(buf.data[buf.start + 1], 2);
    /* The form in which the previous version wrote all records. */
    c.lives = (struct hf_record_lives){0};
    hf_buf_clear(&buf);
    assert_int_equal(hf_record_encode_client(&c, &buf), 0);
    assert_int_equal(buf.data[buf.start + 1], 1);
    assert_int_equal(hf_record_decode_client(hf_buf_view(&buf), &c2), 0);
    assert_int_equal(c2.lives.n, 0);

    hf_buf_clear(&buf);
    assert_int_equal(hf_record_encode_lock(&l, &buf), 0);
    assert_int_equal(hf_record_decode_lock(hf_buf_view(&buf), &l2), 0);
    assert_true(hf_bytes_equal(l.fh, l2.fh) && hf_bytes_equal(l.oh, l2.oh));
    assert_true(l2.first == 10 && l2.last == UINT64_MAX && l2.svid == -1 && l2.exclusive);

    hf_buf_clear(&buf);
    assert_int_equal(hf_record_encode_server(&s, &buf), 0);
    assert_int_equal(hf_record_decode_server(hf_buf_view(&buf), &s2), 0);
    assert_true(s2.epoch == 41 && s2.clean);
    assert_true(s2.role == HF_ROLE_UNKNOWN && s2.durability == HF_DURABILITY_UNKNOWN);

    hf_buf_clear(&buf); /* in version 2, a boot id means that locks were not flushed */
    s = (struct hf_record_server){.epoch = 41, .boot_id = {7}};
    assert_int_equal(hf_record_encode_server(&s, &buf), 0);
    assert_int_equal(buf.data[buf.start + 1], 2);
    assert_int_equal(hf_record_decode_server(hf_buf_view(&buf), &s2), 0);
    assert_true(s2.boot_id[0] == 7 && s2.durability == HF_DURABILITY_PROCESS && !s2.locks_unknown);

    hf_buf_clear(&buf);
    s = (struct hf_record_server){.epoch = 41,
                                  .locks_unknown = true,
                                  .boot_id = {7},
                                  .role = HF_ROLE_MONITOR,
                                  .durability = HF_DURABILITY_FULL,
                                  .number_epoch = 40};
    assert_int_equal(hf_record_encode_server(&s, &buf), 0);
    assert_true(hf_buf_len(&buf) <= HF_RECORD_SERVER_MAX);
    assert_int_equal(hf_record_decode_server(hf_buf_view(&buf), &s2), 0);
    assert_true(s2.epoch == 41 && !s2.clean && s2.locks_unknown && s2.boot_id[0] == 7);
    assert_true(s2.role == HF_ROLE_MONITOR && s2.durability == HF_DURABILITY_FULL);
    assert_int_equal(s2.number_epoch, 40);
    assert_int_equal(hf_buf_view(&buf).data[1], 3); /* an older version can read it */

    hf_buf_clear(&buf);
    s.continuity = HF_CONTINUITY_COMPLETE;
    assert_int_equal(hf_record_encode_server(&s, &buf), 0);
    assert_true(hf_buf_len(&buf) <= HF_RECORD_SERVER_MAX);
    assert_int_equal(hf_buf_view(&buf).data[1], 4);
    assert_int_equal(hf_record_decode_server(hf_buf_view(&buf), &s2), 0);
    assert_int_equal(s2.continuity, HF_CONTINUITY_COMPLETE);
    /* As a function of a migration does. */
    buf.data[buf.start + hf_buf_len(&buf) - 1] = HF_CONTINUITY_LOST;
    assert_int_equal(hf_record_decode_server(hf_buf_view(&buf), &s2), 0);
    assert_int_equal(s2.continuity, HF_CONTINUITY_LOST);
    buf.data[buf.start + hf_buf_len(&buf) - 1]++;
    assert_int_equal(hf_record_decode_server(hf_buf_view(&buf), &s2), HF_EFORMAT);
    hf_buf_free(&buf);
}

/* Every truncation and every appended byte is refused, never misread. */
static void damaged_records_are_refused(void **state)
{
    struct hf_record_client c = sample_client();
    struct hf_record_lock l = sample_lock();
    struct hf_buf buf;
    struct hf_bytes view;

    (void)state;
    hf_buf_init(&buf, &hf_alloc_heap);
    hf_record_encode_client(&c, &buf);
    hf_buf_append(&buf, "x", 1);
    view = hf_buf_view(&buf);
    for (size_t len = 0; len <= view.len; len++) {
        int rv = hf_record_decode_client(hf_bytes(view.data, len), &c);
        assert_int_equal(rv, len == view.len - 1 ? 0 : HF_EFORMAT);
    }
    hf_buf_clear(&buf);
    hf_record_encode_lock(&l, &buf);
    view = hf_buf_view(&buf);
    for (size_t len = 0; len < view.len; len++)
        assert_int_equal(hf_record_decode_lock(hf_bytes(view.data, len), &l), HF_EFORMAT);
    hf_buf_free(&buf);
}

/* A record is refused if all its lives have ended, if their order is impossible, or if there are
 * too many. */
static void impossible_lives_are_refused(void **state)
{
    struct hf_record_lives lives = sample_client().lives;
    uint8_t bytes[HF_RECORD_LIVES_MAX];
    size_t len = hf_record_encode_lives(&lives, bytes);

    (void)state;
    assert_int_equal(hf_record_decode_lives(hf_bytes(bytes, len), &lives), 0);
    assert_int_equal(hf_record_decode_lives(hf_bytes(NULL, 0), &lives), 0);
    assert_int_equal(lives.n, 0);
    bytes[1] = 3;
    assert_int_equal(hf_record_decode_lives(hf_bytes(bytes, len), &lives), HF_EFORMAT);
    bytes[1] = 0;
    bytes[0] = HF_CLIENT_LIVES + 1;
    assert_int_equal(hf_record_decode_lives(hf_bytes(bytes, sizeof(bytes)), &lives), HF_EFORMAT);
    bytes[0] = 3;
    bytes[2 + 12 + 4] = 1; /* the second life would have begun later than the first */
    assert_int_equal(hf_record_decode_lives(hf_bytes(bytes, len), &lives), HF_EFORMAT);
}

/* The records of a waiter, of a grant whose callback is in flight, and of a share (REC-02, REC-03)
 * are read as they were written; records that are cut short, too long or impossible are refused. */
static void waiters_and_shares_come_back(void **state)
{
    uint8_t had[2 * HF_RECORD_HAD_SIZE];
    struct hf_record_lock l = sample_lock();
    struct hf_record_lock back;
    struct hf_buf buf;
    struct hf_bytes view;

    (void)state;
    hf_buf_init(&buf, &hf_alloc_heap);
    hf_record_encode_lock(&l, &buf);
    assert_true(hf_record_is_held(hf_buf_view(&buf)));
    assert_int_equal(hf_buf_view(&buf).data[1], 1); /* an older version can read it */
    hf_record_put_had(had, &(struct hf_record_had){10, 19, true});
    hf_record_put_had(had + HF_RECORD_HAD_SIZE, &(struct hf_record_had){30, UINT64_MAX, false});
    l.extra = (struct hf_record_extra){.what = HF_RECORD_GRANTED,
                                       .life_id = 7,
                                       .place = 8,
                                       .offset = 10,
                                       .length = 0,
                                       .local = {.family = HF_ADDR_IPV4, .bytes = {10, 1, 2, 3}},
                                       .transport = HF_TRANSPORT_TCP,
                                       .version = 4,
                                       .msg = true,
                                       .passes = true,
                                       .n_had = 2,
                                       .had = hf_bytes(had, sizeof(had))};
    for (unsigned what = HF_RECORD_WAITING; what <= HF_RECORD_SHARED; what++) {
        l.extra.what = (enum hf_record_what)what;
        l.extra.n_had = what == HF_RECORD_GRANTED ? 2 : 0;
        l.extra.had.len = (size_t)l.extra.n_had * HF_RECORD_HAD_SIZE;
        l.extra.mode = 2;
        l.extra.access = 1;
        hf_buf_clear(&buf);
        assert_int_equal(hf_record_encode_lock(&l, &buf), 0);
        hf_buf_append(&buf, "x", 1);
        view = hf_buf_view(&buf);
        assert_false(hf_record_is_held(view));
        for (size_t len = 0; len <= view.len; len++)
            assert_int_equal(hf_record_decode_lock(hf_bytes(view.data, len), &back),
                             len == view.len - 1 ? 0 : HF_EFORMAT);
        view.len--;
        assert_int_equal(hf_record_decode_lock(view, &back), 0);
        assert_true(back.extra.what == what && back.extra.life_id == 7);
        if (what == HF_RECORD_SHARED) {
            assert_true(back.extra.mode == 2 && back.extra.access == 1);
            continue;
        }
        assert_true(back.extra.place == 8 && back.extra.msg && !back.extra.monitored);
        assert_true(back.extra.passes && hf_addr_same_host(&back.extra.local, &l.extra.local));
        assert_int_equal(back.extra.n_had, l.extra.n_had);
    }
    l.extra.what = HF_RECORD_GRANTED;
    l.extra.n_had = 2;
    l.extra.had.len = sizeof(had);
    hf_buf_clear(&buf);
    hf_record_encode_lock(&l, &buf);
    assert_int_equal(hf_record_decode_lock(hf_buf_view(&buf), &back), 0);
    assert_true(hf_record_had(&back.extra, 0).exclusive &&
                hf_record_had(&back.extra, 0).last == 19);
    assert_true(hf_record_had(&back.extra, 1).first == 30 &&
                hf_record_had(&back.extra, 1).last == UINT64_MAX);
    hf_record_put_had(had, &(struct hf_record_had){10, 30, true}); /* they overlap */
    hf_buf_clear(&buf);
    hf_record_encode_lock(&l, &buf);
    assert_int_equal(hf_record_decode_lock(hf_buf_view(&buf), &back), HF_EFORMAT);
    hf_buf_free(&buf);
}

static void newer_formats_are_refused_by_name(void **state)
{
    struct hf_record_lock l = sample_lock();
    struct hf_buf buf;

    (void)state;
    hf_buf_init(&buf, &hf_alloc_heap);
    hf_record_encode_lock(&l, &buf);
    buf.data[buf.start + 1] = 99;
    assert_int_equal(hf_record_decode_lock(hf_buf_view(&buf), &l), HF_EVERSION);
    hf_buf_free(&buf);
}

static void batch_gives_back_what_it_took(void **state)
{
    struct hf_record_server s = {.epoch = 2};
    struct hf_record_client c = sample_client();
    struct hf_record_lock l = sample_lock();
    struct hf_record_lock back;
    struct hf_batch batch;
    struct hf_op op;
    size_t cursor = 0;

    (void)state;
    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_batch_put_server(&batch, &s), 0);
    assert_int_equal(hf_batch_put_client(&batch, &c), 0);
    assert_int_equal(hf_batch_put_lock(&batch, &l), 0);
    assert_int_equal(hf_batch_delete(&batch, HF_RECORD_LOCK, 77), 0);
    assert_int_equal(batch.n_ops, 4);
    assert_true(hf_batch_next(&batch, &cursor, &op) && op.kind == HF_RECORD_SERVER);
    assert_true(hf_batch_next(&batch, &cursor, &op) && op.id == c.id);
    assert_true(hf_batch_next(&batch, &cursor, &op) && op.type == HF_OP_PUT);
    assert_int_equal(hf_record_decode_lock(op.value, &back), 0);
    assert_true(back.id == op.id && op.id == l.id);
    assert_true(hf_batch_next(&batch, &cursor, &op));
    assert_true(op.type == HF_OP_DELETE && op.id == 77 && op.value.len == 0);
    assert_false(hf_batch_next(&batch, &cursor, &op));
    hf_batch_clear(&batch);
    cursor = 0;
    assert_false(hf_batch_next(&batch, &cursor, &op));
    hf_batch_free(&batch);
}

static void batch_keeps_no_half_operation(void **state)
{
    struct faulty_heap heap = {.after = 1};
    struct hf_alloc alloc = faulty_alloc(&heap);
    struct hf_record_client c = sample_client();
    struct hf_batch batch;
    struct hf_op op;
    size_t cursor = 0;
    int n = 0;

    (void)state;
    hf_batch_init(&batch, &alloc);
    while (hf_batch_put_client(&batch, &c) == 0)
        n++;
    assert_int_equal(batch.n_ops, n);
    while (hf_batch_next(&batch, &cursor, &op))
        n--;
    assert_int_equal(n, 0);
    hf_batch_free(&batch);
    assert_int_equal(heap.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_round_trip),
        cmocka_unit_test(damaged_records_are_refused),
        cmocka_unit_test(impossible_lives_are_refused),
        cmocka_unit_test(waiters_and_shares_come_back),
        cmocka_unit_test(newer_formats_are_refused_by_name),
        cmocka_unit_test(batch_gives_back_what_it_took),
        cmocka_unit_test(batch_keeps_no_half_operation),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
