/*
 * Migrations of the PostgreSQL schema: the files of migrations/, built into the program. The table
 * holdfast_migrations records which were applied. Private to this room; other rooms call
 * hf_store_migrate().
 */
#ifndef HF_STORE_MIGRATE_H
#define HF_STORE_MIGRATE_H

#include "store/pg_conn.h"

/* The advisory lock of a session that changes the schema: "HOLD", 0. */
#define HF_PG_MIGRATION_LOCK "1213156420, 0"

/*
 * Begins a transaction in which no other daemon changes the schema, and ends it, committed or not.
 * The lock belongs to the session and is taken before the transaction begins: a session that waits
 * for a lock inside a transaction goes on with what its caches said before, and would not see what
 * the session that had the lock has made.
 */
int hf_migrate_begin(struct hf_pg *pg, const char *what);
int hf_migrate_end(struct hf_pg *pg, const char *what, int rv);

struct hf_migration {
    int version; /* the number: 1, 2, 3 ... without gaps */
    const char *name;
    const char *up;
    const char *down;
};

/* embed_migrations.py makes this table. */
extern const struct hf_migration hf_migrations[];
extern const int hf_n_migrations;

/*
 * Applies all missing migrations in one transaction. HF_EVERSION if the database is newer than the
 * program.
 */
int hf_migrate_up(struct hf_pg *pg, hf_migrate_report report, void *ctx);

/* Returns HF_EVERSION if the database has another schema than this program: a newer one keeps
 * records where this program does not look. */
int hf_migrate_check(struct hf_pg *pg);

/* Reverts the newest migration. Returns HF_ENOENT if there is none. */
int hf_migrate_down(struct hf_pg *pg, hf_migrate_report report, void *ctx);

int hf_migrate_status(struct hf_pg *pg, hf_migrate_report report, void *ctx);

#endif
