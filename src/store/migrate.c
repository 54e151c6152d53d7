#include "store/migrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/backend.h"
#include "store/pg_session.h"

#define WHAT "cannot migrate the schema"

static const char MAKE_TABLE[] = "CREATE TABLE IF NOT EXISTS holdfast_migrations ("
                                 " version integer PRIMARY KEY, name text NOT NULL,"
                                 " applied_at timestamptz NOT NULL DEFAULT now())";

/* Returns the schema's version. It only reads the table of migrations, which needs no right to
 * create tables, so that a daemon with few privileges can run on a schema that is up to date. */
static int current_version(struct hf_pg *pg, int *out)
{
    PGresult *result;
    bool exists;
    int rv = hf_pg_exec_row(pg, "SELECT to_regclass('holdfast_migrations') IS NOT NULL", 0, NULL,
                            WHAT, &result);

    *out = 0;
    if (rv < 0)
        return rv;
    exists = PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    if (!exists)
        return 0;
    rv = hf_pg_exec_row(pg, "SELECT coalesce(max(version), 0) FROM holdfast_migrations", 0, NULL,
                        WHAT, &result);
    if (rv < 0)
        return rv;
    *out = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    if (*out >= 0 && *out <= hf_n_migrations)
        return 0;
    return hf_store_fail(
        pg->store, HF_EVERSION,
        "the database has schema %d, this program knows %d; run the newer Holdfast "
        "that made it",
        *out, hf_n_migrations);
}

int hf_migrate_check(struct hf_pg *pg)
{
    int version;
    int rv = current_version(pg, &version);

    if (rv < 0 || version == hf_n_migrations)
        return rv;
    return hf_store_fail(pg->store, HF_EVERSION,
                         "the database has schema %d, this program has %d; a migration was taken "
                         "back: restart this daemon",
                         version, hf_n_migrations);
}

static void tell(hf_migrate_report report, void *ctx, const struct hf_migration *m,
                 const char *state)
{
    char line[128];

    if (!report)
        return;
    hf_format(line, sizeof(line), "%04d %s: %s", m->version, m->name, state);
    report(ctx, line);
}

/* Runs one migration and records it in the table of migrations, in the caller's transaction. */
static int step(struct hf_pg *pg, const struct hf_migration *m, bool up)
{
    char version[16];
    const char *const params[] = {version, m->name};
    int rv = hf_pg_exec(pg, up ? m->up : m->down, WHAT, NULL);

    hf_format(version, sizeof(version), "%d", m->version);
    if (rv < 0)
        return rv;
    if (up)
        return hf_pg_exec_params(pg,
                                 "INSERT INTO holdfast_migrations (version, name) VALUES ($1, $2)",
                                 2, params, WHAT, NULL);
    return hf_pg_exec_params(pg, "DELETE FROM holdfast_migrations WHERE version = $1", 1, params,
                             WHAT, NULL);
}

int hf_migrate_begin(struct hf_pg *pg, const char *what)
{
    int rv = hf_pg_exec(pg, "SELECT pg_advisory_lock(" HF_PG_MIGRATION_LOCK ")", what, NULL);

    return rv < 0 ? rv : hf_pg_exec(pg, "BEGIN", what, NULL);
}

/* Ends the transaction and gives up the advisory lock. If that fails, the caller closes the
 * session, which gives up the lock, too. */
int hf_migrate_end(struct hf_pg *pg, const char *what, int rv)
{
    if (rv == 0)
        rv = hf_pg_exec(pg, "COMMIT", what, NULL);
    if (rv < 0) {
        hf_pg_rollback(pg);
        return rv;
    }
    return hf_pg_exec(pg, "SELECT pg_advisory_unlock(" HF_PG_MIGRATION_LOCK ")", what, NULL);
}

/* Creates the schema of a service. If the schema exists, this needs no right to create one. */
static int make_schema(struct hf_pg *pg)
{
    const char *const params[] = {pg->schema};
    PGresult *result;
    char sql[HF_PG_SCHEMA_MAX + 32];
    bool exists;
    int rv;

    if (!pg->schema[0])
        return 0;
    rv = hf_pg_exec_row(pg, "SELECT to_regnamespace(quote_ident($1)) IS NOT NULL", 1, params, WHAT,
                        &result);
    if (rv < 0)
        return rv;
    exists = PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    hf_format(sql, sizeof(sql), "CREATE SCHEMA \"%s\"", pg->schema);
    return exists ? 0 : hf_pg_exec(pg, sql, WHAT, NULL);
}

/* Begins to migrate. Two daemons of a service may start at the same moment: the second one waits
 * for the first and reads the version again. */
static int begin_up(struct hf_pg *pg, int *version)
{
    int rv = hf_migrate_begin(pg, WHAT);

    if (rv == 0)
        rv = make_schema(pg);
    if (rv == 0)
        rv = hf_pg_exec(pg, MAKE_TABLE, WHAT, NULL);
    return rv < 0 ? rv : current_version(pg, version);
}

int hf_migrate_up(struct hf_pg *pg, hf_migrate_report report, void *ctx)
{
    int version;
    int rv = current_version(pg, &version);

    if (rv < 0 || version == hf_n_migrations)
        return rv;
    rv = begin_up(pg, &version);
    for (int i = version; i < hf_n_migrations && rv == 0; i++)
        rv = step(pg, &hf_migrations[i], true);
    rv = hf_migrate_end(pg, WHAT, rv);
    for (int i = version; i < hf_n_migrations && rv == 0; i++)
        tell(report, ctx, &hf_migrations[i], "applied");
    return rv;
}

int hf_migrate_down(struct hf_pg *pg, hf_migrate_report report, void *ctx)
{
    int version;
    int rv = current_version(pg, &version);

    if (rv < 0)
        return rv;
    if (version == 0)
        return hf_store_fail(pg->store, HF_ENOENT, "there is no migration to take back");
    rv = hf_migrate_begin(pg, WHAT);
    if (rv == 0)
        rv = step(pg, &hf_migrations[version - 1], false);
    rv = hf_migrate_end(pg, WHAT, rv);
    if (rv == 0)
        tell(report, ctx, &hf_migrations[version - 1], "taken back");
    return rv;
}

int hf_migrate_status(struct hf_pg *pg, hf_migrate_report report, void *ctx)
{
    int version;
    int rv = current_version(pg, &version);

    for (int i = 0; i < hf_n_migrations && rv == 0; i++)
        tell(report, ctx, &hf_migrations[i], i < version ? "applied" : "missing");
    return rv;
}

int hf_store_migrate(const struct hf_store_config *config, enum hf_migrate what,
                     hf_migrate_report report, void *ctx, char error[HF_STORE_ERROR_MAX])
{
    static int (*const DO[])(struct hf_pg *, hf_migrate_report, void *) = {
        [HF_MIGRATE_UP] = hf_migrate_up,
        [HF_MIGRATE_DOWN] = hf_migrate_down,
        [HF_MIGRATE_STATUS] = hf_migrate_status,
    };
    struct hf_store store = {.alloc = config->alloc ? config->alloc : &hf_alloc_heap};
    struct hf_pg pg = {.store = &store};
    int rv;

    if (!config->backend || strcmp(config->backend, hf_store_postgres.name) != 0)
        rv = hf_store_fail(&store, HF_EINVAL, "only store.backend = postgres has migrations");
    else
        rv = hf_pg_init(&pg, &store, config);
    if (rv == 0)
        rv = hf_pg_session_connect(&pg, what != HF_MIGRATE_STATUS);
    if (rv == 0)
        rv = DO[what](&pg, report, ctx);
    hf_pg_free(&pg);
    memcpy(error, store.error, sizeof(store.error));
    return rv;
}
