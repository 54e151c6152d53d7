/* The lives of a client (clients.h): which life sent a request, and when a new life begins. */
#include <string.h>

#include "core/clients/clients.h"
#include "core/durable/durable.h"
#include "core/internal.h"

/* Returns the index of this state among the known lives; HF_CLIENT_LIVES: the state is unknown. */
static unsigned place_of(const struct hf_lives *lives, int32_t state)
{
    unsigned i = 0;

    while (i < HF_CLIENT_LIVES && lives->states[i] != state)
        i++;
    return i;
}

/* Returns the index of the entry with this life; HF_CLIENT_LIVES: older than every known life. */
static unsigned place_of_life(const struct hf_lives *lives, uint32_t life)
{
    unsigned i = 0;

    while (i < HF_CLIENT_LIVES && (lives->first[i] == 0 || lives->first[i] > life))
        i++;
    return i;
}

/* Returns the newest life of this entry, which may stand for several lives. */
static uint32_t last_of(const struct hf_lives *lives, unsigned place)
{
    return place == 0 ? lives->now : lives->first[place - 1] - 1;
}

static void begin(const struct hf_core *core, struct hf_lives *lives, int32_t state)
{
    memmove(&lives->states[1], &lives->states[0], sizeof(lives->states) - sizeof(state));
    memmove(&lives->first_ids[1], &lives->first_ids[0],
            sizeof(lives->first_ids) - sizeof(lives->first_ids[0]));
    memmove(&lives->first[1], &lives->first[0], sizeof(lives->first) - sizeof(lives->first[0]));
    lives->now += lives->now < HF_LIFE_MAX;
    lives->states[0] = state;
    lives->first_ids[0] = core->next_id;
    lives->first[0] = lives->now;
}

/* Removes this entry: its lives then belong to the entry of the lives before them. */
static void join_former(struct hf_lives *lives, unsigned place)
{
    for (; place + 1 < HF_CLIENT_LIVES; place++) {
        lives->states[place] = lives->states[place + 1];
        lives->first_ids[place] = lives->first_ids[place + 1];
        lives->first[place] = lives->first[place + 1];
    }
    lives->states[place] = 0;
    lives->first_ids[place] = 0;
    lives->first[place] = 0;
}

/* Returns the index of a former life with this state, whether that life is over or not; 0: there is
 * none. */
static unsigned known_place(const struct hf_lives *lives, int32_t state)
{
    unsigned place = place_of(lives, state);

    return state != 0 && place < HF_CLIENT_LIVES ? place : 0;
}

/* Returns the index of a former life with this state that may still hold something; 0: there is
 * none. */
static unsigned former_place(const struct hf_lives *lives, int32_t state)
{
    unsigned place = known_place(lives, state);

    return last_of(lives, place) >= lives->oldest ? place : 0;
}

/* Returns the life of a request with this state. The state of a life that is over begins a new life
 * as well: a client may return to an old state, and if we believed a forged notice it never left
 * that state. */
uint32_t hf_client_life(struct hf_core *core, struct hf_client *client, int32_t state)
{
    struct hf_lives *lives = &client->lives;
    unsigned former = former_place(lives, state);

    if (state == 0 || state == lives->states[0])
        return lives->now;
    if (former != 0)
        return last_of(lives, former);
    if (lives->states[0] == 0 && lives->first[0] == 1) {
        lives->states[0] = state; /* the client tells its state number for the first time */
        return lives->now;
    }
    begin(core, lives, state);
    if (client->m.state != 0)
        hf_client_event(core, HF_EVENT_STATE_HINT, client, state, client->m.state, 0);
    return lives->now;
}

/*
 * A delayed FREE_ALL with the state of a former life is about what that life had, and a second one
 * finds nothing. A notice with such a state, if it is the first to tell of that life, is about the
 * lives before it: a LOCK of yet another life can only have come later than that life's first LOCK.
 * If there is only one life, and only a request that had to wait has told its state number, a
 * notice with that number is about what this life had.
 */
uint32_t hf_client_restarts(const struct hf_core *core, struct hf_client *client, int32_t state,
                            bool free_all, bool *began)
{
    struct hf_lives *lives = &client->lives;
    unsigned known = known_place(lives, state);
    unsigned former = former_place(lives, state);

    *began = false;
    if (free_all && known != 0)
        return last_of(lives, known) + 1;
    if (former != 0 && lives->first[former] > lives->oldest)
        return lives->first[former];
    *began = free_all || lives->first[0] == 1 || state != lives->states[0];
    if (lives->now == HF_LIFE_MAX)
        return HF_LIFE_MAX + 1; /* lives cannot be told apart any more: everything is released */
    if (*began)
        begin(core, lives, state != 0 ? state : lives->states[0]);
    return lives->first[0];
}

/* The client's record in the store forgets the life as well, if it has that life. */
void hf_client_forget_life(struct hf_core *core, struct hf_now now, struct hf_client *client,
                           uint32_t life)
{
    unsigned place = place_of_life(&client->lives, life);
    struct hf_txn txn;

    if (place < HF_CLIENT_LIVES && client->lives.first[place] == life)
        join_former(&client->lives, place);
    if (!client->registered || client->recorded.n == 0)
        return;
    client->recorded_life = 0;
    hf_txn_begin(&txn, core, now, NULL);
    if (hf_client_register(&txn, client) < 0)
        hf_txn_abort(&txn); /* the next grant corrects the client's record instead */
    else
        (void)hf_txn_commit(&txn);
}

int32_t hf_client_oldest_state(const struct hf_client *client)
{
    unsigned place = place_of_life(&client->lives, client->lives.oldest);

    return place < HF_CLIENT_LIVES ? client->lives.states[place] : 0;
}

/* True if only lives with this state may still hold something. (A FREE_ALL begins another life with
 * the same state.) */
static bool is_one(const struct hf_lives *lives, int32_t state)
{
    unsigned oldest = place_of_life(lives, lives->oldest);
    unsigned same = 0;

    while (same <= oldest && same < HF_CLIENT_LIVES && lives->states[same] == state)
        same++;
    return same > oldest;
}

struct hf_record_lives hf_lives_record(const struct hf_client *client)
{
    const struct hf_lives *lives = &client->lives;
    struct hf_record_lives out = {0};

    if (is_one(lives, client->m.state))
        return out;
    for (unsigned place = 0; place < HF_CLIENT_LIVES && lives->first[place] != 0; place++) {
        out.n++;
        out.n_left += last_of(lives, place) < lives->oldest;
    }
    memcpy(out.states, lives->states, sizeof(out.states));
    memcpy(out.first_ids, lives->first_ids, sizeof(out.first_ids));
    return out;
}

/* Loads lives from a record. The first life of a client has no first id. If the record lacks that
 * first life, everything older than the recorded lives counts as one more life. */
struct hf_lives hf_lives_load(const struct hf_record_client *record)
{
    struct hf_lives lives = {.now = 1, .oldest = 1, .states = {record->state}, .first = {1}};
    uint32_t older;

    if (record->lives.n == 0)
        return lives;
    older = record->lives.first_ids[record->lives.n - 1] != 0;
    lives.now = record->lives.n + older;
    lives.oldest = record->lives.n_left > 0 ? record->lives.n_left + older + 1 : 1;
    memcpy(lives.states, record->lives.states, sizeof(lives.states));
    memcpy(lives.first_ids, record->lives.first_ids, sizeof(lives.first_ids));
    for (unsigned place = 0; place < record->lives.n; place++)
        lives.first[place] = lives.now - place;
    return lives;
}

uint64_t hf_client_first_id(const struct hf_client *client, uint32_t life)
{
    unsigned place = place_of_life(&client->lives, life);

    return place < HF_CLIENT_LIVES ? client->lives.first_ids[place] : 0;
}

/* Returns the index of the life in which this id was given out. */
static unsigned place_of_id(const struct hf_lives *lives, uint64_t id)
{
    unsigned place = 0;

    while (place < HF_CLIENT_LIVES && lives->first[place] != 0 && id < lives->first_ids[place])
        place++;
    return place;
}

uint32_t hf_client_life_of_id(const struct hf_client *client, uint64_t id)
{
    const struct hf_lives *lives = &client->lives;
    uint32_t life = last_of(lives, place_of_id(lives, id));

    return life > 0 ? life : 1;
}

bool hf_client_id_tells_life(const struct hf_client *client, uint64_t id, uint32_t life)
{
    const struct hf_lives *lives = &client->lives;

    return lives->first[1] == 0 || place_of_id(lives, id) == place_of_life(lives, life);
}
