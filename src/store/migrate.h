/*
 * Migrations of the PostgreSQL schema: the files of migrations/, built into the program. The table
 * holdfast_migrations records which were applied. Private to this room; other rooms call
 * hf_store_migrate().
 */
#ifndef HF_STORE_MIGRATE_H
#define HF_STORE_MIGRATE_H

#include "store/pg_conn.h"

/* Held by the transaction that changes the schema: "HOLD", 0. */
#define HF_PG_MIGRATION_LOCK "1213156420, 0"

struct hf_migration {
    int version; /* 1, 2, 3 ... without gaps */
    const char *name;
    const char *up;
    const char *down;
};

/* Made by embed_migrations.py. */
extern const struct hf_migration hf_migrations[];
extern const int hf_n_migrations;

/*
 * Applies all missing migrations in one transaction. HF_EVERSION if the database is newer than the
 * program.
 */
int hf_migrate_up(struct hf_pg *pg, hf_migrate_report report, void *ctx);

/* Reverts the newest migration. HF_ENOENT if there is none. */
int hf_migrate_down(struct hf_pg *pg, hf_migrate_report report, void *ctx);

int hf_migrate_status(struct hf_pg *pg, hf_migrate_report report, void *ctx);

#endif
