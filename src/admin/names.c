#include "admin/names.h"

#include <string.h>
#include <sys/random.h>

#include "admin/fh_map.h"
#include "admin/namer.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/map.h"

enum name_state { NAME_SETTLED, NAME_QUEUED, NAME_ASKED };

struct name {
    struct hf_map_node node;
    /* Links a settled name into names->settled, any other into names->open. */
    struct hf_list link;
    enum name_state state;
    uint64_t number;      /* the number of the question, which is its id for the namer */
    uint64_t answered_ms; /* when the namer's answer came; 0: no answer has come */
    enum hf_name_status status;
    char *path;
    size_t path_size;
    uint8_t len;
    uint8_t fh[HF_NAMES_HANDLE_MAX];
};

struct hf_names {
    uv_loop_t *loop;
    struct hf_fh_map map;
    const char *map_file;
    struct namer *namer;
    struct hf_map by_fh;
    struct hf_list settled; /* names with an answer, the one that was used longest ago first */
    struct hf_list open;    /* names that are queued or asked, in the order of their numbers */
    struct hf_list waits;
    /* The questions in flight, each at its number modulo the size of the array. */
    struct name *asked[NAMER_ASKED_MAX];
    size_t count, path_bytes, n_asked;
    uint64_t last;   /* the number of the last question */
    uint64_t unsent; /* questions with this number or a higher one are queued */
    struct hf_hash_key key;
    struct hf_names_counters counters;
    uv_timer_t turn;     /* runs once, at the end of a turn in which a name was asked for */
    uv_timer_t deadline; /* fires when the time of the first waiting caller is over */
    bool closing;
    unsigned open_handles;
};

/* ---- names that are kept ---- */

static bool same_fh(const struct hf_map_node *node, const void *key)
{
    const struct name *name = hf_container_of(node, struct name, node);
    const struct hf_bytes *fh = key;

    return name->len == fh->len && memcmp(name->fh, fh->data, fh->len) == 0;
}

static struct name *find(const struct hf_names *names, struct hf_bytes fh)
{
    struct hf_map_node *node;

    if (fh.len == 0 || fh.len > HF_NAMES_HANDLE_MAX)
        return NULL;
    node = hf_map_find(&names->by_fh, hf_hash(&names->key, fh.data, fh.len), same_fh, &fh);
    return node ? hf_container_of(node, struct name, node) : NULL;
}

static void set_path(struct hf_names *names, struct name *name, char *path, size_t size)
{
    names->path_bytes -= name->path_size;
    hf_free(&hf_alloc_heap, name->path);
    name->path = path;
    name->path_size = size;
    names->path_bytes += size;
}

static void forget(struct hf_names *names, struct name *name)
{
    HF_ASSERT(name);
    set_path(names, name, NULL, 0);
    hf_map_remove(&names->by_fh, &name->node);
    hf_list_remove(&name->link);
    hf_free(&hf_alloc_heap, name);
    names->count--;
}

/* Makes room for a name; false: every name that could give way is being asked for. */
static bool make_room(struct hf_names *names)
{
    while (names->count >= HF_NAMES_KEPT_MAX || names->path_bytes > HF_NAMES_PATH_BYTES_MAX) {
        if (hf_list_empty(&names->settled))
            return names->count < HF_NAMES_KEPT_MAX;
        forget(names, hf_list_first(&names->settled, struct name, link));
    }
    return true;
}

static struct name *add(struct hf_names *names, struct hf_bytes fh)
{
    struct name *name;

    if (!make_room(names))
        return NULL;
    name = hf_calloc(&hf_alloc_heap, 1, sizeof(*name));
    if (!name)
        return NULL;
    name->len = (uint8_t)fh.len;
    memcpy(name->fh, fh.data, fh.len);
    hf_map_insert(&names->by_fh, &name->node, hf_hash(&names->key, fh.data, fh.len));
    hf_list_add_tail(&names->settled, &name->link);
    names->count++;
    return name;
}

static void settle(struct hf_names *names, struct name *name, enum hf_name_status status)
{
    if (name->state == NAME_ASKED) {
        names->asked[name->number % NAMER_ASKED_MAX] = NULL;
        names->n_asked--;
    }
    name->state = NAME_SETTLED;
    name->status = status;
    name->answered_ms = uv_now(names->loop);
    hf_list_remove(&name->link);
    hf_list_add_tail(&names->settled, &name->link);
}

/* ---- callers that wait ---- */

static uint64_t oldest_open(const struct hf_names *names)
{
    const struct name *name = hf_list_first(&names->open, struct name, link);

    return name ? name->number : UINT64_MAX;
}

static bool is_over(const struct hf_names *names, const struct hf_names_wait *wait)
{
    if (uv_now(names->loop) >= wait->until_ms || names->closing)
        return true;
    if (wait->last == 0)
        return hf_namer_state(names->namer) != NAMER_CONNECTING;
    return oldest_open(names) > wait->last;
}

static void on_deadline(uv_timer_t *timer);

/* Wakes callers whose names are there. A woken caller may wait again at once, so each caller is
 * looked at only once. */
static void wake(struct hf_names *names)
{
    struct hf_list looked;
    uint64_t next = UINT64_MAX;

    hf_list_init(&looked);
    hf_list_splice_tail(&looked, &names->waits);
    while (!hf_list_empty(&looked)) {
        struct hf_names_wait *wait = hf_list_first(&looked, struct hf_names_wait, link);

        hf_list_remove(&wait->link);
        if (is_over(names, wait))
            wait->done(wait);
        else
            hf_list_add_tail(&names->waits, &wait->link);
    }
    hf_list_foreach (node, &names->waits) {
        const struct hf_names_wait *wait = hf_list_entry(node, struct hf_names_wait, link);
        next = wait->until_ms < next ? wait->until_ms : next;
    }
    if (next == UINT64_MAX || names->closing)
        uv_timer_stop(&names->deadline);
    else
        uv_timer_start(&names->deadline, on_deadline,
                       next > uv_now(names->loop) ? next - uv_now(names->loop) : 1, 0);
}

static void on_deadline(uv_timer_t *timer)
{
    wake(timer->data);
}

bool hf_names_wait(struct hf_names *names, struct hf_names_wait *wait, uint64_t until_ms,
                   void (*done)(struct hf_names_wait *wait))
{
    HF_ASSERT(!hf_list_linked(&wait->link));
    wait->done = done;
    wait->until_ms = until_ms;
    wait->last = hf_list_empty(&names->open) ? 0 : names->last;
    if (is_over(names, wait))
        return false;
    hf_list_add_tail(&names->waits, &wait->link);
    if (!uv_is_active((uv_handle_t *)&names->deadline) ||
        uv_timer_get_due_in(&names->deadline) + uv_now(names->loop) > until_ms)
        uv_timer_start(&names->deadline, on_deadline, until_ms - uv_now(names->loop), 0);
    return true;
}

void hf_names_cancel(struct hf_names_wait *wait)
{
    hf_list_remove(&wait->link);
}

/* ---- questions and answers ---- */

/* Sends as many of the queued questions as the namer may have in flight. */
static void send_queued(struct hf_names *names)
{
    if (hf_namer_state(names->namer) != NAMER_UP)
        return;
    hf_list_foreach (node, &names->open) {
        struct name *name = hf_list_entry(node, struct name, link);

        if (name->state != NAME_QUEUED)
            continue;
        if (names->n_asked == NAMER_ASKED_MAX || names->asked[name->number % NAMER_ASKED_MAX] ||
            hf_namer_ask(names->namer, name->number, hf_bytes(name->fh, name->len)) < 0)
            break;
        name->state = NAME_ASKED;
        names->asked[name->number % NAMER_ASKED_MAX] = name;
        names->n_asked++;
        names->counters.asked++;
    }
    hf_namer_flush(names->namer, names->n_asked > 0 ? oldest_open(names) : 0);
}

static void on_turn(uv_timer_t *timer)
{
    struct hf_names *names = timer->data;

    send_queued(names);
    wake(names);
}

static void soon(struct hf_names *names)
{
    if (!names->closing && !uv_is_active((uv_handle_t *)&names->turn))
        uv_timer_start(&names->turn, on_turn, 0, 0);
}

static bool on_answer(void *ctx, const struct hf_name_answer *answer)
{
    struct hf_names *names = ctx;
    struct name *name = names->asked[answer->id % NAMER_ASKED_MAX];
    char *path = NULL;

    if (!name || name->number != answer->id)
        return false;
    if (answer->status == HF_NAME_KNOWN) {
        path = hf_malloc(&hf_alloc_heap, answer->len + 1);
        if (path)
            memcpy(path, answer->path, answer->len + 1);
    }
    set_path(names, name, path, path ? answer->len + 1 : 0);
    names->counters.named += answer->status == HF_NAME_KNOWN;
    names->counters.deleted += answer->status == HF_NAME_DELETED;
    names->counters.unknown += answer->status == HF_NAME_NONE;
    settle(names, name, answer->status == HF_NAME_KNOWN && !path ? HF_NAME_NONE : answer->status);
    soon(names);
    return true;
}

static void on_up(void *ctx)
{
    soon(ctx);
}

static void on_down(void *ctx)
{
    struct hf_names *names = ctx;

    while (!hf_list_empty(&names->open)) {
        struct name *name = hf_list_first(&names->open, struct name, link);

        HF_ASSERT(name);
        names->counters.unanswered++;
        set_path(names, name, NULL, 0);
        settle(names, name, HF_NAME_NONE);
        /* The name is asked for again as soon as there is a namer to ask. */
        name->answered_ms = 0;
    }
    soon(names);
}

void hf_names_connect(struct hf_names *names)
{
    hf_namer_connect(names->namer);
}

bool hf_names_ask(struct hf_names *names, struct hf_bytes fh)
{
    struct name *name;

    if (fh.len == 0 || fh.len > HF_NAMES_HANDLE_MAX || hf_fh_map_path(&names->map, fh))
        return false;
    name = find(names, fh);
    if (name && name->state != NAME_SETTLED)
        return true;
    if (name && name->answered_ms && uv_now(names->loop) - name->answered_ms < HF_NAMES_FRESH_MS)
        return false;
    hf_namer_connect(names->namer);
    if (hf_namer_state(names->namer) < NAMER_CONNECTING || names->closing)
        return false;
    name = name ? name : add(names, fh);
    if (!name)
        return false;
    name->state = NAME_QUEUED;
    name->number = ++names->last;
    hf_list_remove(&name->link);
    hf_list_add_tail(&names->open, &name->link);
    soon(names);
    return true;
}

enum hf_name_status hf_names_get(struct hf_names *names, struct hf_bytes fh, uint64_t since_ms,
                                 const char **path)
{
    const char *mapped = hf_fh_map_path(&names->map, fh);
    struct name *name;

    if (mapped) {
        if (path)
            *path = mapped;
        return HF_NAME_KNOWN;
    }
    name = names->count ? find(names, fh) : NULL;
    if (!name || name->answered_ms == 0 || name->answered_ms < since_ms)
        return HF_NAME_NONE;
    /* The name was used now, so it becomes the last to give way. */
    if (name->state == NAME_SETTLED) {
        hf_list_remove(&name->link);
        hf_list_add_tail(&names->settled, &name->link);
    }
    if (path && name->status == HF_NAME_KNOWN)
        *path = name->path;
    return name->status;
}

enum hf_name_status hf_names_show(struct hf_names *names, struct hf_bytes fh, const char **path)
{
    uint64_t now = uv_now(names->loop);

    return hf_names_get(names, fh, now > HF_NAMES_STALE_MS ? now - HF_NAMES_STALE_MS : 0, path);
}

/* ---- what there is ---- */

struct hf_names_source hf_names_source(const struct hf_names *names)
{
    enum hf_namer_state state = hf_namer_state(names->namer);

    return (struct hf_names_source){
        .map = names->map.count > 0,
        .namer = state != NAMER_ABSENT,
        .up = state == NAMER_UP,
        .connecting = state == NAMER_CONNECTING,
        .reason = hf_namer_reason(names->namer),
    };
}

const struct hf_names_counters *hf_names_counters(const struct hf_names *names)
{
    return &names->counters;
}

size_t hf_names_kept(const struct hf_names *names)
{
    return names->count;
}

/* ---- the object ---- */

static void free_all(struct hf_names *names)
{
    while (!hf_list_empty(&names->settled))
        forget(names, hf_list_first(&names->settled, struct name, link));
    hf_map_free(&names->by_fh);
    hf_fh_map_free(&names->map);
    hf_free(&hf_alloc_heap, names);
}

static int open_all(struct hf_names *names, const char *socket)
{
    const struct namer_ops ops = {names, on_answer, on_up, on_down};

    /*
     * Without a readable map there are names from the namer only; hf_fh_map_read() has logged that.
     */
    (void)hf_fh_map_read(&names->map, names->map_file);
    if (getrandom(&names->key, sizeof(names->key), 0) < 0)
        return HF_EUNAVAIL;
    names->namer = hf_namer_new(names->loop, socket, &ops);
    return names->namer ? 0 : HF_ENOMEM;
}

int hf_names_new(uv_loop_t *loop, const char *socket, const char *fh_map, struct hf_names **out)
{
    struct hf_names *names = hf_calloc(&hf_alloc_heap, 1, sizeof(*names));
    int rv;

    if (!names)
        return HF_ENOMEM;
    names->loop = loop;
    names->map_file = fh_map;
    hf_list_init(&names->settled);
    hf_list_init(&names->open);
    hf_list_init(&names->waits);
    hf_fh_map_init(&names->map);
    rv = hf_map_init(&names->by_fh, &hf_alloc_heap);
    if (rv == 0)
        rv = open_all(names, socket);
    if (rv < 0) {
        free_all(names);
        return rv;
    }
    uv_timer_init(loop, &names->turn);
    uv_timer_init(loop, &names->deadline);
    names->turn.data = names->deadline.data = names;
    names->open_handles = 2;
    *out = names;
    return 0;
}

void hf_names_reload(struct hf_names *names)
{
    (void)hf_fh_map_read(&names->map, names->map_file);
}

static void on_closed(uv_handle_t *handle)
{
    struct hf_names *names = handle->data;

    if (--names->open_handles == 0)
        free_all(names);
}

void hf_names_close(struct hf_names *names)
{
    names->closing = true;
    hf_namer_close(names->namer);
    on_down(names);
    wake(names);
    uv_close((uv_handle_t *)&names->turn, on_closed);
    uv_close((uv_handle_t *)&names->deadline, on_closed);
}
