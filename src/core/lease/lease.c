#include "core/lease/lease.h"

#include <stddef.h>

#include "base/assert.h"

/* After a transaction that failed at once, say because the connection was refused, the next try
 * comes after this part of the usual pause. */
enum { RETRY_PART = 4 };

/* After this many transactions without an answer, an owner whose lease ran out only polls. */
enum { DEAF_FAILURES = 2 };

bool hf_lease_config_is_safe(const struct hf_lease_config *config)
{
    return config->lease_ms > 0 && config->renew_ms > 0 && config->poll_ms > 0 &&
           config->polls > 0 && (uint64_t)config->renew_ms * 2 < config->lease_ms &&
           (uint64_t)config->take_ms * 10 > (uint64_t)config->lease_ms * 11 &&
           config->move_ms > config->take_ms;
}

void hf_lease_init(struct hf_lease *lease, const struct hf_lease_config *config, uint64_t nonce)
{
    HF_ASSERT(nonce != 0 && hf_lease_config_is_safe(config));
    *lease = (struct hf_lease){.config = *config, .nonce = nonce};
}

void hf_lease_reset(struct hf_lease *lease, uint64_t nonce, uint64_t now)
{
    HF_ASSERT(nonce != 0 && lease->state == HF_LEASE_LOST);
    lease->state = HF_LEASE_STANDBY;
    lease->nonce = nonce;
    lease->epoch = 0;
    lease->valid_until = 0;
    lease->silent = false;
    lease->polls = 0;
    lease->failures = 0;
    lease->next_at = now;
}

bool hf_lease_is_owner(const struct hf_lease *lease)
{
    return lease->state == HF_LEASE_ACTIVE || lease->state == HF_LEASE_LEAVING;
}

static bool is_deaf(const struct hf_lease *lease, uint64_t now)
{
    return lease->failures >= DEAF_FAILURES && now >= lease->valid_until;
}

bool hf_lease_may_commit(const struct hf_lease *lease, uint64_t now)
{
    return hf_lease_is_owner(lease) && !is_deaf(lease, now);
}

uint64_t hf_lease_epoch(const struct hf_lease *lease)
{
    return hf_lease_is_owner(lease) ? lease->epoch : 0;
}

uint64_t hf_lease_valid_until(const struct hf_lease *lease)
{
    return lease->state == HF_LEASE_ACTIVE ? lease->valid_until : 0;
}

static bool is_held(const struct hf_lease *lease, uint64_t now)
{
    return lease->hold == HF_LEASE_UNTIL_TOLD ||
           (lease->hold == HF_LEASE_UNTIL_TAKEN && now < lease->held_at + lease->config.move_ms);
}

enum hf_lease_state hf_lease_state(const struct hf_lease *lease, uint64_t now)
{
    if (lease->state == HF_LEASE_ACTIVE && now >= lease->valid_until)
        return HF_LEASE_SUSPENDED;
    if (lease->state == HF_LEASE_STANDBY && is_held(lease, now))
        return HF_LEASE_HELD;
    return lease->state;
}

/*
 * In STANDBY: returns when the row may be taken. The time counts from the answer to the first poll
 * of the series, because the renewal whose heartbeat that poll saw was sent earlier.
 */
static uint64_t take_at(const struct hf_lease *lease)
{
    if (lease->polls > 0 && (lease->seen.released || lease->seen.epoch == 0))
        return 0;
    return lease->polls >= lease->config.polls ? lease->series_at + lease->config.take_ms
                                               : UINT64_MAX;
}

/* Returns when the series of polls ends unless another answer arrives. */
static uint64_t series_until(const struct hf_lease *lease)
{
    return lease->last_poll_at + (uint64_t)lease->config.poll_ms * 2;
}

static bool may_take(const struct hf_lease *lease, uint64_t now)
{
    return !is_held(lease, now) && now >= take_at(lease) && now < series_until(lease);
}

enum hf_lease_action hf_lease_next(const struct hf_lease *lease, uint64_t now)
{
    if (lease->in_flight != HF_LEASE_NOTHING || lease->state == HF_LEASE_LOST)
        return HF_LEASE_NOTHING;
    if (lease->state == HF_LEASE_STANDBY && may_take(lease, now))
        return HF_LEASE_TAKE;
    if (now < lease->next_at)
        return HF_LEASE_NOTHING;
    if (lease->state == HF_LEASE_LEAVING && lease->silent)
        return HF_LEASE_RELEASE;
    if (lease->state == HF_LEASE_ALARM && !lease->is_told)
        return HF_LEASE_RAISE_ALARM;
    if (lease->state == HF_LEASE_ALARM && lease->is_accepted)
        return HF_LEASE_CLEAR;
    return hf_lease_may_commit(lease, now) ? HF_LEASE_RENEW : HF_LEASE_POLL;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t hf_lease_deadline(const struct hf_lease *lease, uint64_t now)
{
    uint64_t at = UINT64_MAX;

    if (lease->state == HF_LEASE_ACTIVE && now < lease->valid_until)
        at = lease->valid_until;
    if (lease->in_flight != HF_LEASE_NOTHING || lease->state == HF_LEASE_LOST)
        return at;
    at = earlier(at, lease->next_at);
    if (lease->state == HF_LEASE_STANDBY && !is_held(lease, now))
        at = earlier(at, take_at(lease));
    return at > now ? at : now;
}

struct hf_lease_order hf_lease_begin(struct hf_lease *lease, enum hf_lease_action action,
                                     uint64_t now)
{
    struct hf_lease_order order = {.action = action, .nonce = lease->nonce};

    HF_ASSERT(lease->in_flight == HF_LEASE_NOTHING && action != HF_LEASE_NOTHING);
    HF_ASSERT(action != HF_LEASE_COMMIT || hf_lease_is_owner(lease));
    lease->in_flight = action;
    lease->sent_at = now;
    order.epoch = lease->known.epoch; /* an owner's own epoch, or the one that a standby saw last */
    order.heartbeat = lease->known.heartbeat;
    order.new_epoch = lease->top_epoch + 1;
    return order;
}

/* True if the row does not continue what we know: our newest known epoch was never taken, was taken
 * by another process, or had ended before the heartbeat that we know. */
static bool is_not_past(const struct hf_lease_row *known, const struct hf_lease_past *past)
{
    return past->epoch != 0 && (past->epoch != known->epoch || past->nonce != known->nonce ||
                                (past->until != 0 && past->until <= known->heartbeat));
}

/*
 * True if the database went back in time: it shows less than it once acknowledged to this process,
 * or another process has taken the epoch whose nonce we know. Other processes may have gone on from
 * that older state.
 */
static bool went_back(const struct hf_lease *lease, const struct hf_lease_row *row)
{
    const struct hf_lease_row *known = &lease->known;

    return row->epoch < known->epoch || row->heartbeat < known->heartbeat ||
           (row->epoch == known->epoch && known->epoch != 0 && row->nonce != known->nonce) ||
           is_not_past(known, &row->past);
}

static void end_term(struct hf_lease *lease, enum hf_lease_state state)
{
    lease->state = state;
    lease->epoch = 0;
    lease->valid_until = 0;
    lease->polls = 0;
    lease->is_told = false;
    lease->is_accepted = false;
}

/* Looks at a row that was read in any state but ALARM. Returns false if the row raises the
 * alarm. */
static bool look_at(struct hf_lease *lease, uint64_t now, enum hf_lease_result result,
                    const struct hf_lease_row *row)
{
    if (row->alarm || went_back(lease, row)) {
        end_term(lease, HF_LEASE_ALARM);
        lease->is_told = row->alarm;
        lease->next_at = now;
        return false;
    }
    if (result == HF_LEASE_DONE)
        lease->known = *row;
    return true;
}

/* Ends a transaction in ALARM: the alarm is now in the row, or an operator has removed it there. */
static void alarm_ended(struct hf_lease *lease, uint64_t now, enum hf_lease_result result,
                        const struct hf_lease_row *row)
{
    lease->next_at = lease->sent_at + lease->config.poll_ms;
    if (result == HF_LEASE_REFUSED) /* CLEAR was refused: another node has cleared it */
        lease->is_accepted = false;
    if (result != HF_LEASE_DONE)
        return;
    if (row->alarm) {
        lease->is_told = true;
        lease->known = *row;
        lease->next_at = lease->is_accepted ? now : lease->next_at;
    } else if (went_back(lease, row)) {
        lease->is_told = false; /* the database has forgotten even the alarm */
    } else if (lease->is_told) {
        end_term(lease, HF_LEASE_LOST);
        lease->known = *row;
    }
}

/* Notes that the row names us as its owner. It may not be durable yet, so nothing is valid before a
 * renewal, which is due at once, has been acknowledged. */
static void own(struct hf_lease *lease, const struct hf_lease_row *row, uint64_t now)
{
    if (!is_held(lease, now))
        lease->hold = HF_LEASE_NOT_HELD; /* a planned move that no other node followed */
    lease->state = lease->hold == HF_LEASE_NOT_HELD ? HF_LEASE_ACTIVE : HF_LEASE_LEAVING;
    lease->silent = false;
    lease->failures = 0;
    lease->epoch = row->epoch;
    lease->polls = 0;
    lease->valid_until = 0;
    lease->next_at = now;
}

static void renewed(struct hf_lease *lease)
{
    lease->valid_until = lease->sent_at + lease->config.lease_ms;
    /* If the answer came too late, this time has passed: the next renewal is due at once. */
    lease->next_at = lease->sent_at + lease->config.renew_ms;
}

/* True, in STANDBY, if a take of ours that was in doubt has been applied: the row has our nonce. */
static bool is_ours(const struct hf_lease *lease, const struct hf_lease_row *row)
{
    return row->nonce == lease->nonce;
}

static bool is_same(const struct hf_lease_row *a, const struct hf_lease_row *b)
{
    return a->epoch == b->epoch && a->nonce == b->nonce && a->heartbeat == b->heartbeat;
}

static bool is_next_of_series(const struct hf_lease *lease, uint64_t now)
{
    return now < series_until(lease);
}

/* In STANDBY: counts a poll's row towards the series, if the poll was answered in time and the row
 * is unchanged. */
static void observe(struct hf_lease *lease, const struct hf_lease_row *row, uint64_t now)
{
    bool in_time = now - lease->sent_at < lease->config.poll_ms;
    bool goes_on =
        lease->polls > 0 && in_time && is_same(row, &lease->seen) && is_next_of_series(lease, now);

    if (lease->hold == HF_LEASE_UNTIL_TAKEN && !row->released && row->nonce != lease->nonce)
        lease->hold = HF_LEASE_NOT_HELD;
    lease->seen = *row;
    lease->last_poll_at = now;
    if (goes_on) {
        lease->polls++;
        return;
    }
    lease->polls = in_time || row->released ? 1 : 0;
    lease->series_at = now;
}

static void poll_ended(struct hf_lease *lease, uint64_t now, enum hf_lease_result result,
                       const struct hf_lease_row *row)
{
    lease->next_at = lease->sent_at + lease->config.poll_ms;
    if (result != HF_LEASE_DONE) {
        lease->polls = 0;
        return;
    }
    if (!look_at(lease, now, result, row) || lease->state != HF_LEASE_STANDBY)
        return;
    /* A take of ours that was in doubt was applied after all. Only a renewal says from when on the
     * lease counts. */
    if (is_ours(lease, row) && !row->released)
        own(lease, row, now);
    else
        observe(lease, row, now);
}

static void take_ended(struct hf_lease *lease, uint64_t now, enum hf_lease_result result,
                       const struct hf_lease_row *row)
{
    lease->polls = 0;
    lease->next_at = now; /* the take was refused or is in doubt: look again at once */
    if (result == HF_LEASE_FAILED || !look_at(lease, now, result, row))
        return;
    if (result == HF_LEASE_DONE) {
        own(lease, row, now);
        renewed(lease);
    }
}

/* Ends a RENEW, COMMIT or RELEASE of the owner, or a POLL by an owner that had not heard the
 * database. */
static void owner_ended(struct hf_lease *lease, uint64_t now, enum hf_lease_result result,
                        const struct hf_lease_row *row, enum hf_lease_action action)
{
    if (result == HF_LEASE_FAILED) {
        lease->failures++;
        lease->next_at = lease->sent_at + lease->config.renew_ms / RETRY_PART;
        return;
    }
    lease->failures = 0;
    if (!look_at(lease, now, result, row))
        return;
    if (row->epoch != lease->epoch || !is_ours(lease, row)) {
        end_term(lease, HF_LEASE_LOST);
    } else if (result != HF_LEASE_DONE || action == HF_LEASE_POLL) {
        /* A commit expected another heartbeat, or this was a poll: renew at once. */
        lease->next_at = now;
    } else if (action == HF_LEASE_RELEASE) {
        end_term(lease, HF_LEASE_LOST);
        lease->held_at = now;
    } else {
        renewed(lease);
    }
}

void hf_lease_end(struct hf_lease *lease, uint64_t now, enum hf_lease_result result,
                  const struct hf_lease_row *row)
{
    enum hf_lease_action action = lease->in_flight;

    HF_ASSERT(action != HF_LEASE_NOTHING && (row != NULL) == (result != HF_LEASE_FAILED));
    lease->in_flight = HF_LEASE_NOTHING;
    if (row && row->epoch > lease->top_epoch)
        lease->top_epoch = row->epoch;
    if (lease->state == HF_LEASE_ALARM)
        alarm_ended(lease, now, result, row);
    else if (hf_lease_is_owner(lease))
        owner_ended(lease, now, result, row, action);
    else if (action == HF_LEASE_POLL)
        poll_ended(lease, now, result, row);
    else
        take_ended(lease, now, result, row);
}

void hf_lease_step_down(struct hf_lease *lease, enum hf_lease_hold hold, uint64_t now)
{
    HF_ASSERT(hold != HF_LEASE_NOT_HELD);
    lease->hold = hold;
    lease->held_at = now;
    if (lease->state != HF_LEASE_ACTIVE)
        return;
    lease->state = HF_LEASE_LEAVING;
    lease->silent = false;
    lease->valid_until = 0;
}

void hf_lease_silent(struct hf_lease *lease)
{
    if (lease->state != HF_LEASE_LEAVING || lease->silent)
        return;
    lease->silent = true;
    lease->next_at = 0;
}

void hf_lease_want(struct hf_lease *lease)
{
    lease->hold = HF_LEASE_NOT_HELD;
}

bool hf_lease_accept(struct hf_lease *lease)
{
    if (lease->state != HF_LEASE_ALARM)
        return false;
    lease->is_accepted = true;
    lease->next_at = 0;
    return true;
}
