/*
 * What the requests share; private to core/requests. Each request of request.h has its file in this
 * folder: it finds its client, owner and file, lets the modules below do the work, and ends its
 * turn.
 */
#ifndef HF_CORE_REQUESTS_REQUESTS_H
#define HF_CORE_REQUESTS_REQUESTS_H

#include "core/claim.h"
#include "core/common/range.h"
#include "core/request.h"

struct hf_client;
struct hf_file;
struct hf_owner;
struct hf_want;

/*
 * Ends every call from outside that may have changed something: serves the waiters for which a
 * range became free, and ends grace if nothing is left to reclaim.
 */
void hf_turn_end(struct hf_core *core, struct hf_now now);

/* Returns GRANTED if the arguments are valid, otherwise the answer to give. */
enum hf_stat hf_request_check(const struct hf_peer *peer, const struct hf_lock_args *args,
                              struct hf_range *range);

/* The client, owner and file of a request; the request holds a reference to each until
 * hf_subject_put(). */
struct hf_subject {
    struct hf_client *client;
    struct hf_owner *owner;
    struct hf_file *file;
};

/* Finds or makes the client, owner and file of a request; found is the client, if the caller knows
 * it. On HF_ENOMEM a limit was hit or memory ran out, and nothing is left behind. */
int hf_subject_get(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                   const struct hf_lock_args *args, struct hf_client *found,
                   struct hf_subject *out);

/*
 * Returns the client of a peer; NULL if no client fits. *pending: the peer may be a client whose
 * address has changed; its old address is being asked, and the peer must repeat the request.
 */
struct hf_client *hf_request_client(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, bool *pending);

/* Finds the client, owner and file of a request. Returns HF_ENOENT if one of them is unknown,
 * HF_EBUSY if the peer must repeat the request because the client may have moved. */
int hf_subject_find(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                    const struct hf_lock_args *args, struct hf_subject *out);
void hf_subject_put(struct hf_core *core, struct hf_now now, const struct hf_subject *subject);

/* Serves an UNLOCK or CANCEL, which are about locks or waiters that exist. If the client, owner or
 * file is unknown there is nothing to do, and the answer is GRANTED; otherwise action() decides. */
typedef struct hf_answer (*hf_request_action)(struct hf_core *core, struct hf_now now,
                                              const struct hf_subject *subject,
                                              const struct hf_want *want);
struct hf_answer hf_request_about(struct hf_core *core, struct hf_now now,
                                  const struct hf_peer *peer, const struct hf_lock_args *args,
                                  hf_request_action action);

/*
 * True if, with coherence, another request about the file waits for the kernel, and this one must
 * not overtake it (as an UNLOCK must not overtake the LOCK of its owner). The answer then tells
 * what to wait for, and the kernel is asked for what the request will need (RAISE or TEST; SET asks
 * for nothing). Also true, with no answer, if the client has crashed while the request waited.
 */
bool hf_request_waits(struct hf_core *core, const struct hf_peer *peer,
                      const struct hf_lock_args *args, const struct hf_range *range,
                      enum hf_claim_kind kind, struct hf_answer *answer);

/* Ends the turn, and gives the answer the seq that the answer must wait for. */
struct hf_answer hf_request_answer(struct hf_core *core, struct hf_now now,
                                   struct hf_answer answer);

#endif
