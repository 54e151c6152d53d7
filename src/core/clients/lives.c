/* The lives of a client (clients.h): which life sent a request, and when a new one begins. */
#include <string.h>

#include "core/clients/clients.h"
#include "core/internal.h"

/* The place of the state among those that are known; HF_CLIENT_STATES: it is not. */
static unsigned place_of(const struct hf_lives *lives, int32_t state)
{
    unsigned i = 0;

    while (i < HF_CLIENT_STATES && lives->states[i] != state)
        i++;
    return i;
}

static void begin(struct hf_lives *lives, int32_t state)
{
    memmove(&lives->states[1], &lives->states[0], sizeof(lives->states) - sizeof(state));
    lives->states[0] = state;
    lives->now += lives->now < HF_LIFE_MAX;
}

/* The life before the current one that has this state, if it may still have something; else 0. */
static uint32_t former_life(const struct hf_lives *lives, int32_t state)
{
    unsigned place = place_of(lives, state);

    return state != 0 && place > 0 && place < HF_CLIENT_STATES &&
                   lives->now - place >= lives->oldest
               ? lives->now - place
               : 0;
}

/* Also the state of a life that was left for good tells of a new one: a client may go back to it,
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
        lives->states[0] = state; /* the first that it tells */
        return lives->now;
    }
    begin(lives, state);
    if (client->m.state != 0)
        hf_client_event(core, HF_EVENT_STATE_HINT, client, state, client->m.state, 0);
    return lives->now;
}

/*
 * FREE_ALL of a former life, which was delayed, is about what that life had. A notice of a former
 * life that no notice has told of is about what lives before that one had: a LOCK of yet another
 * life was delayed, and came after its first LOCK.
 */
uint32_t hf_client_restarts(struct hf_client *client, int32_t state, bool free_all, bool *began)
{
    struct hf_lives *lives = &client->lives;
    uint32_t former = former_life(lives, state);

    *began = false;
    if (former != 0 && (free_all || former > lives->oldest))
        return former + (free_all ? 1u : 0u);
    *began =
        free_all || client->m.state == 0 || state == client->m.state || state != lives->states[0];
    if (lives->now == HF_LIFE_MAX)
        return HF_LIFE_MAX + 1; /* lives are not told apart any more */
    if (*began)
        begin(lives, state != 0 ? state : lives->states[0]);
    return lives->now;
}

void hf_client_forget_state(struct hf_client *client, int32_t state)
{
    struct hf_lives *lives = &client->lives;
    unsigned place = place_of(lives, state);

    if (place < HF_CLIENT_STATES)
        lives->states[place] = place + 1 < HF_CLIENT_STATES ? lives->states[place + 1] : 0;
}
