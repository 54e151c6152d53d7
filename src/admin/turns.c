#include "admin/turns.h"

#include "admin/private.h"

void hf_admin_turns_init(struct turns *turns, uv_loop_t *loop)
{
    hf_list_init(&turns->queue);
    uv_timer_init(loop, &turns->timer);
    uv_idle_init(loop, &turns->idle);
    turns->timer.data = turns->idle.data = turns;
}

bool hf_admin_turns_has_budget(struct turns *turns)
{
    uint64_t now_ns = uv_hrtime();

    if (now_ns - turns->window_ns >= TURNS_WINDOW_MS * 1000000ULL) {
        turns->window_ns = now_ns;
        turns->used_ns = 0;
    }
    return turns->used_ns < TURNS_BUDGET_NS;
}

static void on_idle(uv_idle_t *idle);

bool hf_admin_turns_take(struct turns *turns, struct turn *turn)
{
    bool granted = turn->granted;

    turn->granted = false;
    if (granted || turns->closing)
        return true;
    if (turns->taken || !hf_list_empty(&turns->queue) || !hf_admin_turns_has_budget(turns))
        return false;
    turns->taken = true;
    uv_idle_start(&turns->idle, on_idle); /* the next turn of the loop may make another piece */
    return true;
}

void hf_admin_turns_used(struct turns *turns, uint64_t start_ns)
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

static void on_timer(uv_timer_t *timer)
{
    struct turns *turns = timer->data;

    uv_idle_start(&turns->idle, on_idle);
}

/* Does one piece of the waiting work of administration, before the loop looks for requests. */
static void on_idle(uv_idle_t *idle)
{
    struct turns *turns = idle->data;

    turns->taken = false;
    if (hf_list_empty(&turns->queue)) {
        uv_idle_stop(idle);
    } else if (hf_admin_turns_has_budget(turns)) {
        turns->taken = true;
        hf_admin_listener_run(resume_first(turns));
    } else {
        uv_idle_stop(idle);
        uv_timer_start(&turns->timer, on_timer, TURNS_WINDOW_MS, 0);
    }
}

void hf_admin_turns_wait(struct turns *turns, struct turn *turn, struct listener *listener,
                         struct MHD_Connection *connection)
{
    turn->connection = connection;
    turn->listener = listener;
    hf_list_add_tail(&turns->queue, &turn->link);
    MHD_suspend_connection(connection);
    if (!uv_is_active((uv_handle_t *)&turns->timer))
        uv_idle_start(&turns->idle, on_idle);
}

void hf_admin_turns_cancel(struct turn *turn)
{
    hf_list_remove(&turn->link);
}

void hf_admin_turns_close(struct turns *turns)
{
    turns->closing = true;
    uv_timer_stop(&turns->timer);
    uv_idle_stop(&turns->idle);
    while (!hf_list_empty(&turns->queue))
        (void)resume_first(turns);
}
