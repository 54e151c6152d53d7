/* Searches the history: a worker reads both files, the older one first, and keeps the newest rows
 * that match. It reads line by line; the limit of the query bounds how many rows it keeps. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "history/private.h"

/* ---- the worker ---- */

static bool is_client(const struct hf_history_query *query, const struct hf_history_row *row)
{
    return query->client[0] == '\0' || strcasestr(row->client, query->client) ||
           strcasestr(row->addr, query->client);
}

static bool is_file(const struct hf_history_query *query, const struct hf_history_row *row)
{
    const char *file = query->file;

    if (strpbrk(file, "*?["))
        return fnmatch(file, row->path, FNM_NOESCAPE) == 0 ||
               fnmatch(file, row->fh, FNM_NOESCAPE | FNM_CASEFOLD) == 0;
    if (file[0] == '/')
        return strcmp(file, row->path) == 0;
    return strcasestr(row->path, file) || strcasestr(row->fh, file);
}

/* True if the query asks for this row. A restart or the end of a grace period concerns every client
 * and file, so it matches every query of its time. */
static bool matches(const struct job *job, const struct hf_history_row *row)
{
    const struct hf_history_query *query = &job->query;

    if (row->to_ms < job->oldest_ms || (query->since_ms != 0 && row->to_ms < query->since_ms) ||
        (query->until_ms != 0 && row->from_ms > query->until_ms))
        return false;
    if (row->kind == HF_HISTORY_NOTE && row->client[0] == '\0' && row->fh[0] == '\0')
        return true;
    return is_client(query, row) && is_file(query, row);
}

/* Keeps a row that was found, and takes over its line. While rows are being found they form a ring,
 * in which a new row replaces the oldest. */
static void keep(struct job *job, char *line, const struct hf_history_row *row)
{
    unsigned at = job->found.n_rows % job->query.limit;

    free(job->lines[at]);
    job->found.more |= job->lines[at] != NULL;
    job->lines[at] = line;
    job->found.rows[at] = *row;
    job->found.n_rows++;
}

/* Removes the last row of this lock or wait from the result: the lock or wait did not end, because
 * the batch failed. */
static void take_back(struct job *job, uint64_t id)
{
    unsigned limit = job->query.limit;
    unsigned n = job->found.n_rows < limit ? job->found.n_rows : limit;

    for (unsigned i = 1; i <= n; i++) {
        struct hf_history_row *row = &job->found.rows[(job->found.n_rows - i) % limit];

        if (row->id == id && (row->kind == HF_HISTORY_LOCK || row->kind == HF_HISTORY_WAIT)) {
            row->kind = HF_HISTORY_UNDONE;
            return;
        }
    }
}

/* Lines come in the order in which their locks and waits ended, so the first one that is young
 * enough is where the history begins. */
static void note_beginning(struct job *job, const struct hf_history_row *row)
{
    if (job->found.begins_ms == 0 && row->to_ms >= job->oldest_ms)
        job->found.begins_ms = row->to_ms;
}

static void read_line(struct job *job, const char *text, size_t len)
{
    struct hf_history_row row;
    char *line = strndup(text, len);

    if (!line) {
        job->found.error = HF_ENOMEM;
        return;
    }
    if (hf_history_decode(line, &row)) {
        note_beginning(job, &row);
        if (matches(job, &row) && row.kind != HF_HISTORY_UNDONE) {
            keep(job, line, &row);
            return;
        }
        if (matches(job, &row))
            take_back(job, row.id);
    }
    free(line);
}

static void read_file(struct job *job, bool older)
{
    char path[PATH_BYTES];
    FILE *stream = fopen(hf_history_file_path(job->history, older, path), "re");
    size_t room = 0;
    char *text = NULL;
    ssize_t len;

    if (!stream) {
        if (errno != ENOENT)
            job->found.error = HF_EIO;
        return;
    }
    while (job->found.error == 0 && (len = getline(&text, &room, stream)) > 0) {
        if (len <= HF_HISTORY_LINE_MAX && text[len - 1] == '\n')
            read_line(job, text, (size_t)len - 1);
    }
    if (ferror(stream))
        job->found.error = HF_EIO;
    free(text);
    fclose(stream);
}

/* Turns the ring of rows so that the oldest comes first, and drops the rows that were removed. */
static void put_in_order(struct job *job)
{
    unsigned limit = job->query.limit;
    unsigned n = job->found.n_rows < limit ? job->found.n_rows : limit;
    unsigned first = job->found.n_rows < limit ? 0 : job->found.n_rows % limit;
    struct hf_history_row *ordered = calloc(n ? n : 1, sizeof(*ordered));
    unsigned kept = 0;

    if (!ordered) {
        job->found.error = HF_ENOMEM;
        job->found.n_rows = 0;
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        const struct hf_history_row *row = &job->found.rows[(first + i) % limit];
        if (row->kind != HF_HISTORY_UNDONE)
            ordered[kept++] = *row;
    }
    free(job->found.rows);
    job->found.rows = ordered;
    job->found.n_rows = kept;
}

static void search_files(struct job *job)
{
    job->found.rows = calloc(job->query.limit, sizeof(*job->found.rows));
    job->lines = calloc(job->query.limit, sizeof(*job->lines));
    if (!job->found.rows || !job->lines) {
        job->found.error = HF_ENOMEM;
        return;
    }
    read_file(job, true);
    read_file(job, false);
    put_in_order(job);
}

static void work(uv_work_t *request)
{
    struct job *job = request->data;

    search_files(job);
    if (job->render)
        job->text = job->render(&job->found);
}

/* ---- the loop's thread ---- */

static void job_free(struct job *job)
{
    if (!job)
        return;
    for (unsigned i = 0; job->lines && i < job->query.limit; i++)
        free(job->lines[i]);
    free(job->lines);
    free(job->found.rows);
    free(job->text);
    free(job);
}

static void forget(struct hf_history *history, const struct job *job)
{
    for (unsigned i = 0; i < HF_HISTORY_SEARCHES_MAX; i++) {
        if (history->jobs[i] == job)
            history->jobs[i] = NULL;
    }
    history->n_jobs--;
}

static void on_worked(uv_work_t *request, int status)
{
    struct job *job = request->data;
    struct hf_history *history = job->history;
    struct hf_history_search *search = job->search;

    (void)status;
    forget(history, job);
    if (search) {
        search->found = job->found;
        search->text = job->text;
        job->search = NULL;
        search->done(search);
    } else {
        job_free(job);
    }
    hf_history_free_if_unused(history);
}

int hf_history_search(struct hf_history *history, struct hf_history_search *search)
{
    struct job *job;
    unsigned at = 0;

    HF_ASSERT(search->query.limit > 0 && search->query.limit <= HF_HISTORY_ROWS_MAX);
    while (at < HF_HISTORY_SEARCHES_MAX && history->jobs[at])
        at++;
    if (at == HF_HISTORY_SEARCHES_MAX)
        return HF_ELIMIT;
    job = calloc(1, sizeof(*job));
    if (!job)
        return HF_ENOMEM;
    job->history = history;
    job->search = search;
    job->query = search->query;
    job->oldest_ms = hf_clock_wall_ms() - history->config.age_ms;
    job->work.data = job;
    job->render = search->render;
    search->found = (struct hf_history_found){0};
    search->text = NULL;
    search->job = job;
    history->jobs[at] = job;
    history->n_jobs++;
    uv_queue_work(history->loop, &job->work, work, on_worked);
    return 0;
}

void hf_history_search_free(struct hf_history_search *search)
{
    struct job *job = search->job;

    if (job && job->search)
        job->search = NULL; /* the worker still uses the job, which is freed later */
    else
        job_free(job);
    search->job = NULL;
    search->text = NULL;
    search->found = (struct hf_history_found){0};
}
