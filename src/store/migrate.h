/*
 * Migrations of the PostgreSQL schema: the files of migrations/, built into the program. The table
 * holdfast_migrations records which of them were applied. Private to src/store; other rooms call
 * hf_store_migrate().
 */
#ifndef HF_STORE_MIGRATE_H
#define HF_STORE_MIGRATE_H

#include "store/pg_conn.h"

/* The key of the advisory lock that a session holds while it changes the schema: "HOLD", 0. */
#define HF_PG_MIGRATION_LOCK "1213156420, 0"

/*
 * begin starts a transaction in which no other daemon changes the schema; end ends it, committed if
 * rv is 0. The advisory lock belongs to the session and is taken before the transaction begins: a
 * session that waited for a lock inside its transaction would go on with cached information from
 * before, and would not see what the previous holder of the lock has changed.
 */
int hf_migrate_begin(struct hf_pg *pg, const char *what);
int hf_migrate_end(struct hf_pg *pg, const char *what, int rv);

struct hf_migration {
    int version; /* the number of the migration: 1, 2, 3 ... without gaps */
    const char *name;
    const char *up;
    const char *down;
};

/* The table of migrations, which embed_migrations.py generates. */
extern const struct hf_migration hf_migrations[];
extern const int hf_n_migrations;

/* Applies all missing migrations in one transaction. Returns HF_EVERSION if the database is newer
 * than the program. */
int hf_migrate_up(struct hf_pg *pg, hf_migrate_report report, void *ctx);

/* Returns HF_EVERSION if the schema has another version than this program expects: a newer schema
 * keeps records where this program does not look. */
int hf_migrate_check(struct hf_pg *pg);

/* Reverts the newest migration. Returns HF_ENOENT if there is none. */
int hf_migrate_down(struct hf_pg *pg, hf_migrate_report report, void *ctx);

int hf_migrate_status(struct hf_pg *pg, hf_migrate_report report, void *ctx);

#endif
