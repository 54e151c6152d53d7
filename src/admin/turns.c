#include "admin/turns.h"

#include "admin/private.h"

void turns_init(struct turns *turns, uv_loop_t *loop)
{
    hf_list_init(&turns->queue);
    uv_timer_init(loop, &turns->timer);
    turns->timer.data = turns;
}

static bool has_budget(struct turns *turns)
{
    uint64_t now_ns = uv_hrtime();

    if (now_ns - turns->window_ns >= TURNS_WINDOW_MS * 1000000ULL) {
        turns->window_ns = now_ns;
        turns->used_ns = 0;
    }
    return turns->used_ns < TURNS_BUDGET_NS;
}

bool turns_take(struct turns *turns, struct turn *turn)
{
    bool granted = turn->granted;

    turn->granted = false;
    return granted || turns->closing || (hf_list_empty(&turns->queue) && has_budget(turns));
}

void turns_used(struct turns *turns, uint64_t start_ns)
{
    turns->used_ns += uv_hrtime() - start_ns;
}

static struct listener *resume_first(struct turns *turns)
{
    struct turn *turn = hf_list_first(&turns->queue, struct turn, link);

    hf_list_remove(&turn->link);
    turn->granted = true;
    MHD_resume_connection(turn->connection);
    return turn->listener;
}

/* One after the other, so that each finds out what those before it have used. */
static void on_timer(uv_timer_t *timer)
{
    struct turns *turns = timer->data;

    while (!hf_list_empty(&turns->queue) && has_budget(turns)) {
        uint64_t start_ns = uv_hrtime();

        listener_run(resume_first(turns));
        if (turns->used_ns == 0)
            turns_used(turns, start_ns); /* its connection was gone */
    }
    if (!hf_list_empty(&turns->queue))
        uv_timer_start(timer, on_timer, TURNS_WINDOW_MS, 0);
}

void turns_wait(struct turns *turns, struct turn *turn, struct listener *listener,
                struct MHD_Connection *connection)
{
    turn->connection = connection;
    turn->listener = listener;
    hf_list_add_tail(&turns->queue, &turn->link);
    MHD_suspend_connection(connection);
    if (!uv_is_active((uv_handle_t *)&turns->timer))
        uv_timer_start(&turns->timer, on_timer, has_budget(turns) ? 0 : TURNS_WINDOW_MS, 0);
}

void turns_cancel(struct turn *turn)
{
    hf_list_remove(&turn->link);
}

void turns_close(struct turns *turns)
{
    turns->closing = true;
    uv_timer_stop(&turns->timer);
    while (!hf_list_empty(&turns->queue))
        (void)resume_first(turns);
}
