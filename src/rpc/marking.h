/*
 * Record marking (RFC 5531, section 11): a byte stream consists of records, each of one or more
 * fragments with a four-byte header whose top bit means "last fragment" and whose other bits are
 * the length.
 *
 * A record that is complete in one fragment of the given bytes is returned as a view of them. Only
 * a record that is split over fragments or reads is assembled in a buffer, which is freed as soon
 * as the record has been used. An idle connection therefore holds no memory, and a hostile one at
 * most HF_RPC_RECORD_MAX.
 *
 * A record longer than that, or with more fragments than any honest peer sends, ends the stream:
 * nothing after such a header can be trusted.
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
    /* the longest record that is accepted; the largest NLM call is under 6 KiB */
    HF_RPC_RECORD_MAX = 16 * 1024,
    /* How many fragments a record may have; an empty fragment costs a peer only 4 bytes. */
    HF_RPC_FRAGMENTS_MAX = 64,
};

#define HF_RPC_MARK_LAST 0x80000000U

struct hf_marking {
    struct hf_buf record; /* the part of a split record that has been received */
    uint8_t mark[HF_RPC_MARK_SIZE];
    unsigned mark_len;  /* bytes received of a fragment header that is split over two reads */
    uint32_t left;      /* how many bytes of the current fragment are still to come */
    unsigned fragments; /* how many fragments the current record has so far */
    bool last;          /* the current fragment is the last one of its record */
};

void hf_marking_init(struct hf_marking *marking, const struct hf_alloc *alloc);
void hf_marking_free(struct hf_marking *marking);

/* True in the middle of a record: the peer still has to send the rest. */
static inline bool hf_marking_partial(const struct hf_marking *marking)
{
    return marking->fragments > 0 || marking->mark_len > 0;
}

/*
 * Takes the next complete record out of *input and advances *input. Returns 1 and the record, valid
 * until the next call; 0 when all of the input is used up; HF_EFORMAT for a record that exceeds the
 * limits; HF_ENOMEM.
 */
int hf_marking_next(struct hf_marking *marking, struct hf_bytes *input, struct hf_bytes *record);

/* Writes the record mark for a record of len bytes in one fragment. */
void hf_marking_put(uint8_t out[HF_RPC_MARK_SIZE], size_t len);

#endif
