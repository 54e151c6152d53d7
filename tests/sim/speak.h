/* NLM and NSM as a client speaks them: simulated messages to bytes and back, by hand. */
#ifndef HF_SIM_SPEAK_H
#define HF_SIM_SPEAK_H

#include "core/core.h"
#include "message.h"
#include "xdr.h"

struct sim_world;

enum { SIM_COOKIE_MAX = 16, SIM_OH_MAX = 16, SIM_NLM = 100021, SIM_NSM = 100024 };

/* A request in bytes, as it was sent. */
struct sim_spoken {
    uint32_t prog, vers, proc;
    bool msg; /* the message form */
    uint8_t cookie[SIM_COOKIE_MAX];
    size_t cookie_len;
};

/* What an answer says. */
struct sim_heard {
    enum hf_stat stat; /* SM calls: GRANTED or DENIED, where the answer says it at all */
    struct hf_holder holder;
    uint8_t oh[SIM_OH_MAX]; /* the bytes to which holder.oh points */
    int32_t state;
};

/* Encodes a request; `serial` makes its cookie unique. */
void sim_speak_request(const struct sim_world *world, const struct sim_message *request,
                       uint32_t serial, struct sim_spoken *spoken, struct sim_xdr_out *out);

/* Reads the answer to a request; false if the bytes are no answer, or echo another cookie. */
bool sim_speak_read(const struct sim_spoken *spoken, struct hf_bytes bytes, struct sim_heard *out);

/* The answer that must be heard after the core's decision: versions 1 and 3 cannot express
 * everything. */
struct sim_heard sim_speak_expected(const struct sim_spoken *spoken,
                                    const struct hf_answer *answer);

bool sim_speak_same(const struct sim_spoken *spoken, const struct sim_heard *a,
                    const struct sim_heard *b);

/* True if these arguments express the call. also: an SM_NOTIFY may use the short name as well. */
bool sim_speak_is_call(const struct hf_outcall_attempt *call, bool also, struct hf_bytes args);

#endif
