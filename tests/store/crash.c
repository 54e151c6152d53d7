/*
 * STO-02: a child process under full load is killed 200 times, at any moment. After each kill the
 * store must hold exactly what the child was told is durable, or that and the one batch that was in
 * flight. With PostgreSQL the server, too, is killed now and then.
 *
 * DUR-02: the same is true of batches that are acknowledged when they are written, not flushed
 * ("process"), with a journal so small that its sides change all the time.
 *
 * Batches come from a seed (fixture.h), so the parent knows what the child wrote by number alone.
 */
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "fixture.h"
#include "pg_server.h"
#include "store/commit.h"

enum { KILLS = 200, LIFE_MAX_US = 30000, SERVER_KILLED_EVERY = 40, FLUSHED_EVERY = 50 };

static const uint64_t SEED = 20240229;

/* Memory that outlives the child: the number of the last batch that it was told is durable. */
static struct shared {
    _Atomic uint64_t acked;
    _Atomic uint64_t written; /* how many batches were acknowledged before they were flushed */
} * shared;

static struct hf_store_config config;
static struct pg_server server;

static void post(void *ctx)
{
    sem_post(ctx);
}

/* Commits batch after batch until the process is killed. It makes the next batch while one is in
 * flight. */
static _Noreturn void child(uint64_t seq)
{
    struct hf_committer committer;
    struct hf_commit_result result;
    struct hf_store store;
    struct hf_batch batches[2];
    sem_t woken;

    if (hf_store_open(&store, &config) < 0)
        _exit(1); /* this happens while the server is being killed */
    sem_init(&woken, 0, 0);
    hf_batch_init(&batches[0], &hf_alloc_heap);
    hf_batch_init(&batches[1], &hf_alloc_heap);
    MUST(hf_committer_init(&committer, &store,
                           &(struct hf_committer_config){.give_up_ms = HF_COMMIT_GIVE_UP_MS,
                                                         .wake = post,
                                                         .ctx = &woken}) == 0);
    MUST(hf_committer_start(&committer) == 0);
    story_batch(SEED, seq, &batches[seq & 1]);
    for (;; seq++) {
        batches[seq & 1].may_be_lost = config.unflushed && seq % FLUSHED_EVERY != 0;
        if (batches[seq & 1].may_be_lost && hf_committer_write(&committer, &batches[seq & 1])) {
            atomic_store(&shared->acked, seq);
            atomic_fetch_add(&shared->written, 1);
            story_batch(SEED, seq + 1, &batches[(seq + 1) & 1]);
            continue;
        }
        hf_committer_submit(&committer, &batches[seq & 1]);
        story_batch(SEED, seq + 1, &batches[(seq + 1) & 1]);
        while (!hf_committer_collect(&committer, &result))
            sem_wait(&woken);
        if (result.status < 0)
            _exit(1);
        atomic_store(&shared->acked, result.batch->seq);
    }
}

static bool same(const struct digest *a, const struct digest *b)
{
    return a->sum == b->sum && a->count == b->count;
}

/* Brings the model up to the acknowledged batches, and one batch further if the store has that one.
 */
static bool settle(struct hf_store *model, uint64_t *settled)
{
    struct hf_batch batch;
    struct hf_store store;
    struct digest found;
    struct digest want;
    bool ok = false;

    if (hf_store_open(&store, &config) < 0) {
        printf("# %s\n", hf_store_error(&store));
        return false;
    }
    MUST(store_digest(&store, &found) == 0);
    hf_store_close(&store);
    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t last = atomic_load(&shared->acked), seq = *settled; !ok && seq <= last + 1;) {
        if (seq >= last) {
            MUST(store_digest(model, &want) == 0);
            ok = same(&found, &want);
        }
        if (ok) {
            *settled = seq;
        } else if (++seq <= last + 1) {
            story_batch(SEED, seq, &batch);
            MUST(hf_store_apply(model, &batch) == 0);
        }
    }
    hf_batch_free(&batch);
    return ok;
}

/* Runs the child until it is killed: at any time after its start, or after its first commit. */
static void live_and_die(uint64_t settled, uint64_t life_us, bool working, bool kill_server)
{
    pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0)
        child(settled + 1);
    while (working && atomic_load(&shared->acked) == settled)
        usleep(100);
    usleep((useconds_t)life_us);
    if (kill_server)
        pg_server_stop(&server, SIGKILL);
    kill(pid, SIGKILL);
    MUST(waitpid(pid, NULL, 0) == pid);
    if (kill_server)
        pg_server_again(&server);
}

static bool run(struct hf_store *model)
{
    struct dice dice = {SEED};
    uint64_t settled = 0;
    int kills;

    for (kills = 0; kills < KILLS; kills++) {
        uint64_t life_us = dice_below(&dice, LIFE_MAX_US);
        bool kill_server = server.pid && kills % SERVER_KILLED_EVERY == 0;

        atomic_store(&shared->acked, settled);
        live_and_die(settled, life_us, kills % 2, kill_server);
        if (!settle(model, &settled)) {
            printf("# wrong after kill %d\n", kills + 1);
            return false;
        }
    }
    printf("# %d kills, %llu batches, %llu of them written only\n", kills,
           (unsigned long long)settled, (unsigned long long)atomic_load(&shared->written));
    return settled >= KILLS / 2 && (!config.unflushed || atomic_load(&shared->written) > 0);
}

int main(int argc, char **argv)
{
    struct hf_store_config memory = {.backend = "memory"};
    struct hf_store model;
    char dir[PATH_MAX];
    bool ok;

    MUST(argc == 2);
    config.backend = argv[1];
    if (strcmp(argv[1], "process") == 0)
        config = (struct hf_store_config){
            .backend = "lmdb", .unflushed = true, .side_bytes = 1 << 16, .boot_id = {1}};
    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    if (strcmp(argv[1], "postgres") == 0) {
        if (!pg_server_start(&server)) {
            printf("1..0 # SKIP PostgreSQL is not installed\n");
            return 0;
        }
        config.dsn = server.dsn;
    }
    scratch_make(dir, NULL);
    config.path = dir;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(shared != MAP_FAILED && hf_store_open(&model, &memory) == 0);

    printf("1..1\n");
    fflush(stdout);
    ok = run(&model);
    printf("%s 1 - %s: killed %d times, all that was acknowledged is there and no more\n",
           ok ? "ok" : "not ok", argv[1], KILLS);

    hf_store_close(&model);
    scratch_remove(dir);
    if (config.dsn)
        pg_server_remove(&server);
    return ok ? 0 : 1;
}
