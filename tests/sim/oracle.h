/*
 * The second, naive model: files are short arrays of cells, and each cell knows for each owner
 * whether it holds nothing, a shared or an exclusive lock on it. It has no trees, merges nothing
 * and treats no case apart: what POSIX says about byte ranges, written so simply that a reader can
 * see that it is right.
 *
 * A cell stands for a run of bytes. Where the runs begin is drawn from a few layouts that put the
 * borders at awkward places (one byte wide, around 2^31, 2^32, 2^63, at the last byte); the last
 * cell always reaches to the end of the 64-bit range, which is NLM's "length 0".
 *
 * The structure is used twice: for what the server ought to hold, and for what each client believes
 * to hold.
 */
#ifndef HF_SIM_ORACLE_H
#define HF_SIM_ORACLE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    SIM_FILES = 3,
    SIM_CELLS = 8,
    SIM_HOSTS = 6, /* clients; the last one may be a stranger with a borrowed name */
    SIM_PROCS = 2, /* processes (svid) per client */
    SIM_OWNERS = SIM_HOSTS * SIM_PROCS,
};

enum sim_mode { SIM_FREE = 0, SIM_SHARED = 1, SIM_EXCLUSIVE = 2 };

/* A range of cells of a file, both ends included. */
struct sim_range {
    uint8_t file;
    uint8_t first;
    uint8_t last;
};

struct sim_oracle {
    uint8_t mode[SIM_FILES][SIM_CELLS][SIM_OWNERS]; /* enum sim_mode */
};

/* True if no owner has a lock on this cell. Most cells are free, and the checks run after every
 * event. */
static inline bool sim_cell_is_free(const uint8_t modes[SIM_OWNERS])
{
    static const uint8_t none[SIM_OWNERS];

    return memcmp(modes, none, SIM_OWNERS) == 0;
}

static inline unsigned sim_owner(unsigned host, unsigned proc)
{
    return host * SIM_PROCS + proc;
}

/* Where each cell begins; layout is 0 to SIM_LAYOUTS - 1. */
enum { SIM_LAYOUTS = 4 };
extern const uint64_t sim_layouts[SIM_LAYOUTS][SIM_CELLS];

/* The first and the last byte of a range. */
static inline uint64_t sim_first_byte(unsigned layout, struct sim_range range)
{
    return sim_layouts[layout][range.first];
}

static inline uint64_t sim_last_byte(unsigned layout, struct sim_range range)
{
    return range.last == SIM_CELLS - 1 ? UINT64_MAX : sim_layouts[layout][range.last + 1] - 1;
}

/* The cells that bytes first to last cover; false if the bytes do not begin and end at borders. */
bool sim_range_of_bytes(unsigned layout, uint64_t first, uint64_t last, struct sim_range *range);

static inline bool sim_range_overlaps(struct sim_range a, struct sim_range b)
{
    return a.file == b.file && a.first <= b.last && b.first <= a.last;
}

static inline bool sim_range_equal(struct sim_range a, struct sim_range b)
{
    return a.file == b.file && a.first == b.first && a.last == b.last;
}

/* The lowest owner, other than this one, that stands in the way of a lock; -1 if none does. */
int sim_oracle_conflict(const struct sim_oracle *oracle, unsigned owner, struct sim_range range,
                        bool exclusive);

void sim_oracle_set(struct sim_oracle *oracle, unsigned owner, struct sim_range range,
                    enum sim_mode mode);

/* Like sim_oracle_set(), but a stronger mode that the owner holds stays. */
void sim_oracle_add(struct sim_oracle *oracle, unsigned owner, struct sim_range range,
                    enum sim_mode mode);

/* True if the owner holds every cell of the range in exactly this mode. */
bool sim_oracle_holds(const struct sim_oracle *oracle, unsigned owner, struct sim_range range,
                      enum sim_mode mode);

/* True if the owner holds every cell of the range, in any mode. */
bool sim_oracle_holds_all(const struct sim_oracle *oracle, unsigned owner, struct sim_range range);

/* Removes everything that one host holds. */
void sim_oracle_drop_host(struct sim_oracle *oracle, unsigned host);

/*
 * Walks the locks of an owner as a kernel would list them: the longest runs of one mode. Start with
 * *range = {0}, *mode = SIM_FREE and continue with what came out; false when there are no more.
 */
bool sim_oracle_next_run(const struct sim_oracle *oracle, unsigned owner, struct sim_range *range,
                         enum sim_mode *mode);

#endif
