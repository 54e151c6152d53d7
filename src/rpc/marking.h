/*
 * Record marking (RFC 5531, section 11): a byte stream cut into records, each of one or more
 * fragments with a four-byte header: top bit "last fragment", the rest its length.
 *
 * Feed it what was read. A record that lies whole and in one fragment in the bytes given is handed
 * out where it lies; only a record that is split, over fragments or over reads, is put together in
 * a buffer of its own, which is given back as soon as it is done. So an idle connection holds no
 * memory, and a greedy one at most HF_RPC_RECORD_MAX.
 *
 * A record longer than that, or one made of more fragments than any honest peer sends, ends the
 * stream: after such a header nothing that follows can be trusted.
 */
#ifndef HF_RPC_MARKING_H
#define HF_RPC_MARKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

enum {
    HF_RPC_MARK_SIZE = 4,
    HF_RPC_RECORD_MAX = 16 * 1024, /* the largest NLM call is under 6 KiB */
    HF_RPC_FRAGMENTS_MAX = 64,     /* per record; an empty fragment costs a peer 4 bytes */
};

#define HF_RPC_MARK_LAST 0x80000000U

struct hf_marking {
    struct hf_buf record; /* what has come of a split record */
    uint8_t mark[HF_RPC_MARK_SIZE];
    unsigned mark_len;  /* bytes of a header split over two reads */
    uint32_t left;      /* bytes of the current fragment still to come */
    unsigned fragments; /* fragments of the current record so far */
    bool last;          /* the current fragment is the record's last */
};

void hf_marking_init(struct hf_marking *marking, const struct hf_alloc *alloc);
void hf_marking_free(struct hf_marking *marking);

/* True in the middle of a record: the peer owes us the rest. */
static inline bool hf_marking_partial(const struct hf_marking *marking)
{
    return marking->fragments > 0 || marking->mark_len > 0;
}

/*
 * Takes the next whole record out of *input, advancing it. Returns 1 and the record, valid until
 * the next call; 0 when all of the input is used up; HF_EFORMAT for a record that breaks the
 * limits, HF_ENOMEM.
 */
int hf_marking_next(struct hf_marking *marking, struct hf_bytes *input, struct hf_bytes *record);

/* The header of a record of len bytes in one fragment. */
void hf_marking_put(uint8_t out[HF_RPC_MARK_SIZE], size_t len);

#endif
