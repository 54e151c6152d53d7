#include "base/busy_poll.h"

void hf_busy_poll_init(struct hf_busy_poll *poll, uint64_t bound_ns)
{
    *poll = (struct hf_busy_poll){.bound_ns = bound_ns, .wanted = HF_BUSY_POLL_ROW, .skip_next = 1};
}

/* Learns from the gap without work that has just ended. */
static void learn(struct hf_busy_poll *poll, uint64_t gap_ns)
{
    uint64_t is_short = poll->looking ? poll->bound_ns : HF_BUSY_POLL_SLEEP * poll->bound_ns;

    poll->row = gap_ns <= is_short ? poll->row + 1 : 0;
    if (!poll->looking)
        return;
    poll->looked_ns += gap_ns;
    if (++poll->found >= HF_BUSY_POLL_FORGIVE)
        poll->wanted = HF_BUSY_POLL_ROW;
}

static void miss(struct hf_busy_poll *poll, uint64_t gap_ns)
{
    poll->looked_ns += gap_ns;
    poll->looking = false;
    poll->row = 0;
    poll->found = 0;
    if (poll->wanted < HF_BUSY_POLL_ROW_MAX)
        poll->wanted *= 2;
}

void hf_busy_poll_found(struct hf_busy_poll *poll, uint64_t now_ns)
{
    if (poll->idle_ns)
        learn(poll, now_ns - poll->idle_ns);
    poll->idle_ns = 0;
    poll->looking = false;
}

bool hf_busy_poll_idle(struct hf_busy_poll *poll, uint64_t now_ns)
{
    if (!poll->idle_ns) {
        poll->idle_ns = now_ns;
        poll->looking = poll->bound_ns > 0 && poll->row >= poll->wanted;
    } else if (poll->looking && now_ns - poll->idle_ns >= poll->bound_ns) {
        miss(poll, now_ns - poll->idle_ns);
    }
    return poll->looking;
}

/* Decides whether to poll for the answer to a request that waits alone. */
static void await_answer(struct hf_busy_poll *poll, uint64_t now_ns)
{
    if (!poll->wait_ns) {
        poll->wait_ns = now_ns;
        poll->awaiting = poll->bound_ns > 0 && poll->row >= poll->wanted && poll->skip == 0;
        poll->skip -= poll->skip > 0;
    } else if (poll->awaiting && now_ns - poll->wait_ns >= HF_BUSY_POLL_ANSWER * poll->bound_ns) {
        poll->looked_ns += now_ns - poll->wait_ns;
        poll->awaiting = false;
        poll->skip = poll->skip_next;
        if (poll->skip_next < HF_BUSY_POLL_SKIP_MAX)
            poll->skip_next *= 2;
    }
}

static void stop_awaiting(struct hf_busy_poll *poll, uint64_t now_ns)
{
    if (poll->awaiting) {
        poll->looked_ns += now_ns - poll->wait_ns;
        poll->skip_next = 1;
    }
    poll->awaiting = false;
    poll->wait_ns = 0;
}

bool hf_busy_poll_turn(struct hf_busy_poll *poll, uint64_t now_ns, bool input, unsigned waiting)
{
    if (input)
        hf_busy_poll_found(poll, now_ns);
    if (waiting == 1)
        await_answer(poll, now_ns);
    else
        stop_awaiting(poll, now_ns);
    if (waiting > 0) /* an idle gap begins only when the last waiting request is answered */
        poll->idle_ns = 0;
    return waiting > 0 ? poll->awaiting : hf_busy_poll_idle(poll, now_ns);
}
