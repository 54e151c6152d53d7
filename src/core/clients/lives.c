/* The lives of a client (clients.h) tell which life sent a request, and when a new one begins. */
#include <string.h>

#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"

/* Returns the place of the state among those that are known; HF_CLIENT_LIVES: it is not known. */
static unsigned place_of(const struct hf_lives *lives, int32_t state)
{
    unsigned i = 0;

    while (i < HF_CLIENT_LIVES && lives->states[i] != state)
        i++;
    return i;
}

static void begin(const struct hf_core *core, struct hf_lives *lives, int32_t state)
{
    memmove(&lives->states[1], &lives->states[0], sizeof(lives->states) - sizeof(state));
    memmove(&lives->first_ids[1], &lives->first_ids[0],
            sizeof(lives->first_ids) - sizeof(lives->first_ids[0]));
    lives->states[0] = state;
    lives->first_ids[0] = core->next_id;
    lives->now += lives->now < HF_LIFE_MAX;
}

/* Returns the life before the current one that has this state, if it may still have something; else
 * 0. */
static uint32_t former_life(const struct hf_lives *lives, int32_t state)
{
    unsigned place = place_of(lives, state);

    return state != 0 && place > 0 && place < HF_CLIENT_LIVES && lives->now - place >= lives->oldest
               ? lives->now - place
               : 0;
}

/* The state of a life that was left for good also tells of a new life: a client may go back to it,
 * and after a forged notice that was believed it never left it. */
uint32_t hf_client_life(struct hf_core *core, struct hf_client *client, int32_t state)
{
    struct hf_lives *lives = &client->lives;
    uint32_t former = former_life(lives, state);

    if (state == 0 || state == lives->states[0])
        return lives->now;
    if (former != 0)
        return former;
    if (lives->states[0] == 0 && lives->now == 1) {
        lives->states[0] = state; /* this is the first state that the client tells */
        return lives->now;
    }
    begin(core, lives, state);
    if (client->m.state != 0)
        hf_client_event(core, HF_EVENT_STATE_HINT, client, state, client->m.state, 0);
    return lives->now;
}

/*
 * A delayed FREE_ALL of a former life is about what that life had. If a notice with the state of a
 * former life is the first to tell of it, it is about the lives before that one: a delayed LOCK of
 * yet another life came after that life's first LOCK. If there is only one life, and only a request
 * that had to wait has told its state number, a notice with that number is about what that life
 * had.
 */
uint32_t hf_client_restarts(const struct hf_core *core, struct hf_client *client, int32_t state,
                            bool free_all, bool *began)
{
    struct hf_lives *lives = &client->lives;
    uint32_t former = former_life(lives, state);

    *began = false;
    if (former != 0 && (free_all || former > lives->oldest))
        return former + (free_all ? 1u : 0u);
    *began = free_all || lives->now == 1 || state != lives->states[0];
    if (lives->now == HF_LIFE_MAX)
        return HF_LIFE_MAX + 1; /* lives are not told apart any more, so everything is released */
    if (*began)
        begin(core, lives, state != 0 ? state : lives->states[0]);
    return lives->now;
}

/* Forgets the state; the record forgets it as well, if it has it. */
void hf_client_forget_state(struct hf_core *core, struct hf_now now, struct hf_client *client,
                            int32_t state)
{
    struct hf_lives *lives = &client->lives;
    unsigned place = place_of(lives, state);
    struct hf_txn txn;

    if (place < HF_CLIENT_LIVES)
        lives->states[place] = place + 1 < HF_CLIENT_LIVES ? lives->states[place + 1] : 0;
    if (!client->registered || client->recorded.n == 0)
        return;
    client->recorded_life = 0;
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_register(&txn, client) < 0)
        hf_txn_abort(&txn); /* the record changes with the next grant, then */
    else
        (void)hf_txn_commit(&txn);
}

int32_t hf_client_oldest_state(const struct hf_client *client)
{
    uint32_t before = client->lives.now - client->lives.oldest;

    return before < HF_CLIENT_LIVES ? client->lives.states[before] : 0;
}

/* True if only lives of the recorded state may have something. (A forged notice that was refuted
 * has begun another life of the same state.) */
static bool is_one(const struct hf_lives *lives, int32_t state)
{
    uint32_t n = lives->now - lives->oldest + 1;
    uint32_t same = 0;

    while (same < n && same < HF_CLIENT_LIVES && lives->states[same] == state)
        same++;
    return same == n;
}

struct hf_record_lives hf_lives_record(const struct hf_client *client)
{
    const struct hf_lives *lives = &client->lives;
    struct hf_record_lives out = {0};
    uint32_t still;

    if (is_one(lives, client->m.state))
        return out;
    out.n = (uint8_t)(lives->now < HF_CLIENT_LIVES ? lives->now : HF_CLIENT_LIVES);
    still = lives->now - lives->oldest + 1; /* how many lives are not over */
    out.n_left = (uint8_t)(out.n > still ? out.n - still : 0);
    memcpy(out.states, lives->states, sizeof(out.states));
    memcpy(out.first_ids, lives->first_ids, sizeof(out.first_ids));
    return out;
}

/* Loads lives. The first life of a client has no first id. If the record does not have that life,
 * everything older than the lives it has counts as one more life. */
struct hf_lives hf_lives_load(const struct hf_record_client *record)
{
    struct hf_lives lives = {.now = 1, .oldest = 1, .states = {record->state}};
    uint32_t older;

    if (record->lives.n == 0)
        return lives;
    older = record->lives.first_ids[record->lives.n - 1] != 0;
    lives.now = record->lives.n + older;
    lives.oldest = record->lives.n_left > 0 ? record->lives.n_left + older + 1 : 1;
    memcpy(lives.states, record->lives.states, sizeof(lives.states));
    memcpy(lives.first_ids, record->lives.first_ids, sizeof(lives.first_ids));
    return lives;
}

uint64_t hf_client_first_id(const struct hf_client *client, uint32_t life)
{
    uint32_t place = client->lives.now - life;

    return place < HF_CLIENT_LIVES ? client->lives.first_ids[place] : 0;
}

uint32_t hf_client_life_of_id(const struct hf_client *client, uint64_t id)
{
    const struct hf_lives *lives = &client->lives;
    uint32_t place = 0;

    while (place + 1 < lives->now && place < HF_CLIENT_LIVES && id < lives->first_ids[place])
        place++;
    return lives->now - place;
}
