#include "rpc/marking.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

void hf_marking_init(struct hf_marking *marking, const struct hf_alloc *alloc)
{
    *marking = (struct hf_marking){0};
    hf_buf_init(&marking->record, alloc);
}

void hf_marking_free(struct hf_marking *marking)
{
    hf_buf_free(&marking->record);
}

void hf_marking_put(uint8_t out[HF_RPC_MARK_SIZE], size_t len)
{
    uint32_t mark = htobe32(HF_RPC_MARK_LAST | (uint32_t)len);

    memcpy(out, &mark, sizeof(mark));
}

static void advance(struct hf_bytes *input, size_t len)
{
    input->data += len;
    input->len -= len;
}

/* Reads the header of the next fragment. Returns 1 when the header is complete, 0 when the input
 * ends before. */
static int read_mark(struct hf_marking *m, struct hf_bytes *input)
{
    uint32_t mark;

    if (m->mark_len == 0 && input->len >= HF_RPC_MARK_SIZE) {
        /* in the common case, the whole header is in the input */
        memcpy(&mark, input->data, sizeof(mark));
        advance(input, HF_RPC_MARK_SIZE);
    } else {
        while (m->mark_len < HF_RPC_MARK_SIZE) {
            if (input->len == 0)
                return 0;
            m->mark[m->mark_len++] = *input->data;
            advance(input, 1);
        }
        memcpy(&mark, m->mark, sizeof(mark));
    }
    mark = be32toh(mark);
    m->mark_len = 0;
    m->last = (mark & HF_RPC_MARK_LAST) != 0;
    m->left = mark & ~HF_RPC_MARK_LAST;
    m->fragments++;
    /* Check the length of the fragment before storing any byte of it. */
    if (m->left > HF_RPC_RECORD_MAX - hf_buf_len(&m->record) || m->fragments > HF_RPC_FRAGMENTS_MAX)
        return HF_EFORMAT;
    return 1;
}

static int gather(struct hf_marking *m, struct hf_bytes *input)
{
    size_t take = input->len < m->left ? input->len : m->left;

    if (hf_buf_append(&m->record, input->data, take) < 0)
        return HF_ENOMEM;
    advance(input, take);
    m->left -= (uint32_t)take;
    return 0;
}

int hf_marking_next(struct hf_marking *m, struct hf_bytes *input, struct hf_bytes *record)
{
    /* The caller has finished with the previous record, which was assembled in this buffer. */
    if (m->fragments == 0 && m->record.data)
        hf_buf_free(&m->record);

    for (;;) {
        if (m->fragments == 0 || (m->left == 0 && !m->last)) {
            int rv = read_mark(m, input);
            if (rv <= 0)
                return rv;
        }
        if (m->fragments == 1 && m->last && hf_buf_len(&m->record) == 0 && input->len >= m->left) {
            *record = hf_bytes(input->data,
                               /* The record is complete in the input, so the caller gets a view of
                                * the input. */
                               m->left);
            advance(input, m->left);
            m->fragments = 0;
            return 1;
        }
        if (gather(m, input) < 0)
            return HF_ENOMEM;
        if (m->left > 0)
            return 0;
        if (m->last) {
            *record = hf_buf_view(&m->record);
            m->fragments = 0;
            return 1;
        }
    }
}
