/* Our inlined primitives of XDR treat a stream as libtirpc's do: same bytes, same position, same
 * refusals. A name in parentheses, (xdr_int), is libtirpc's function and not the macro. */
#include "unit.h"

#include "proto/xdr_memory.h"

enum { ROOM = 64, MAX = 24, ROUNDS = 200000 };

struct fields {
    int number;
    u_int word;
    enum_t choice;
    u_quad_t hyper;
    bool_t flag;
    char fixed[7];
    char *bytes;
    u_int len;
    char storage[MAX];
};

typedef bool_t (*codec)(XDR *xdr, struct fields *f);

static bool_t theirs(XDR *xdr, struct fields *f)
{
    return (xdr_int)(xdr, &f->number) && (xdr_bytes)(xdr, &f->bytes, &f->len, MAX) &&
           (xdr_u_int)(xdr, &f->word) && (xdr_opaque)(xdr, f->fixed, sizeof(f->fixed)) &&
           (xdr_enum)(xdr, &f->choice) && (xdr_u_quad_t)(xdr, &f->hyper) &&
           (xdr_bool)(xdr, &f->flag);
}

static bool_t ours(XDR *xdr, struct fields *f)
{
    return xdr_int(xdr, &f->number) && xdr_bytes(xdr, &f->bytes, &f->len, MAX) &&
           xdr_u_int(xdr, &f->word) && xdr_opaque(xdr, f->fixed, sizeof(f->fixed)) &&
           xdr_enum(xdr, &f->choice) && xdr_u_quad_t(xdr, &f->hyper) && xdr_bool(xdr, &f->flag);
}

static bool_t run(codec pass, enum xdr_op op, char *stream, u_int size, struct fields *f,
                  u_int *place)
{
    XDR xdr;
    bool_t done;

    f->bytes = f->storage;
    xdrmem_create(&xdr, stream, size, op);
    done = pass(&xdr, f);
    *place = xdr_getpos(&xdr);
    return done;
}

static void assert_same_fields(const struct fields *a, const struct fields *b)
{
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->word, b->word);
    assert_int_equal(a->choice, b->choice);
    assert_true(a->hyper == b->hyper);
    assert_int_equal(a->flag, b->flag);
    assert_memory_equal(a->fixed, b->fixed, sizeof(a->fixed));
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->storage, b->storage, a->len);
}

/* Compares both on random streams, some of them cut short, with lengths that are often possible. */
static void both_decode_alike_and_encode_alike(void **state)
{
    unsigned taken = 0;

    (void)state;
    srandom(1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct fields a = {0};
        struct fields b = {0};
        char in[ROOM], out_a[ROOM] = {0}, out_b[ROOM] = {0};
        u_int size = (u_int)random() % (ROOM + 1);
        u_int place_a, place_b;
        bool_t done;

        for (unsigned i = 0; i < ROOM; i++)
            in[i] = (char)random();
        if (round % 8)
            memcpy(in + 4, "\0\0\0", 3); /* the length is a small number */
        if (round % 4)
            in[7] = (char)(in[7] % (MAX + 2));
        done = run(theirs, XDR_DECODE, in, size, &a, &place_a);
        assert_int_equal(run(ours, XDR_DECODE, in, size, &b, &place_b), done);
        if (!done)
            continue;
        taken++;
        assert_int_equal(place_a, place_b);
        assert_same_fields(&a, &b);

        size = (u_int)random() % (ROOM + 1);
        done = run(theirs, XDR_ENCODE, out_a, size, &a, &place_a);
        assert_int_equal(run(ours, XDR_ENCODE, out_b, size, &b, &place_b), done);
        if (done) {
            assert_int_equal(place_a, place_b);
            assert_memory_equal(out_a, out_b, place_a);
        }
    }
    assert_true(taken > ROUNDS / 20);
}

static void bytes_without_storage_are_refused(void **state)
{
    char in[] = {0, 0, 0, 1, 'x', 0, 0, 0};
    char *bytes = NULL;
    u_int len = 0;
    XDR xdr;

    (void)state;
    xdrmem_create(&xdr, in, sizeof(in), XDR_DECODE);
    assert_false(xdr_bytes(&xdr, &bytes, &len, MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_decode_alike_and_encode_alike),
        cmocka_unit_test(bytes_without_storage_are_refused),
    };
    return cmocka_run_group_tests_name("xdr", tests, NULL, NULL);
}
