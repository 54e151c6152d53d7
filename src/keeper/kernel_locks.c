#include "keeper/kernel_locks.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/assert.h"
#include "keeper/reopen.h"

/* ---- the calls ---- */

static struct flock flock_of(const struct hf_span *span)
{
    static const short TYPES[] = {
        [HF_KEEPER_NONE] = F_UNLCK, [HF_KEEPER_SHARED] = F_RDLCK, [HF_KEEPER_EXCLUSIVE] = F_WRLCK};

    return (struct flock){
        .l_type = TYPES[span->mode],
        .l_whence = SEEK_SET,
        .l_start = (off_t)span->first,
        .l_len = span->last == HF_RANGE_LAST ? 0 : (off_t)(span->last - span->first + 1),
    };
}

int hf_kernel_lock(int fd, const struct hf_span *span)
{
    struct flock lock = flock_of(span);

    return fcntl(fd, F_OFD_SETLK, &lock);
}

int hf_kernel_wait(int fd, const struct hf_span *span)
{
    struct flock lock = flock_of(span);

    return fcntl(fd, F_OFD_SETLKW, &lock);
}

void hf_kernel_unlock_all(int fd)
{
    struct hf_span all = {.last = HF_RANGE_LAST};

    (void)hf_kernel_lock(fd, &all);
}

bool hf_kernel_test(int fd, const struct hf_span *part, struct hf_holder *holder)
{
    struct flock lock = flock_of(part);

    *holder = (struct hf_holder){.pid = -1};
    if (fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
        return false;
    holder->offset = (uint64_t)lock.l_start;
    holder->length = (uint64_t)lock.l_len;
    /* The kernel says 0 for a process of another pid namespace. */
    holder->pid = lock.l_pid > 0 ? lock.l_pid : -1;
    holder->mode = lock.l_type == F_WRLCK ? HF_KEEPER_EXCLUSIVE : HF_KEEPER_SHARED;
    return true;
}

/* ---- claims ---- */

void hf_restore(struct hf_keeper_file *file, const struct hf_span *part)
{
    for (uint64_t at = part->first;;) {
        struct hf_span stretch = hf_ranges_at(&file->ranges, at, part->last);

        /* This call lowers or repeats a lock, so it cannot be refused. */
        (void)hf_kernel_lock(file->fd, &stretch);
        if (stretch.last == part->last)
            return;
        at = stretch.last + 1;
    }
}

/* Finds the next stretch from `at` on that one call can raise: an exclusive claim takes all at
 * once, a shared one leaves out what is held exclusively. False: nothing is left to be raised. */
static bool next_stretch(const struct hf_keeper_file *file, const struct hf_span *part, uint64_t at,
                         struct hf_span *out)
{
    bool found = false;

    if (part->mode == HF_KEEPER_EXCLUSIVE) {
        *out = *part;
        return at == part->first;
    }
    while (at <= part->last) {
        struct hf_span stretch = hf_ranges_at(&file->ranges, at, part->last);

        if (stretch.mode == HF_KEEPER_EXCLUSIVE && found)
            return true;
        if (stretch.mode == HF_KEEPER_NONE && !found) {
            found = true;
            out->first = stretch.first;
            out->mode = part->mode;
        }
        if (found)
            out->last = stretch.last;
        if (stretch.last == part->last)
            break;
        at = stretch.last + 1;
    }
    return found;
}

/* Returns how many spans the file has after a claim, at most: a gap between exclusive spans may
 * join its neighbours. */
static uint32_t count_after(const struct hf_keeper_file *file, const struct hf_span *part)
{
    uint32_t stretches = 0, count = file->ranges.count;
    struct hf_span stretch;

    for (uint64_t at = part->first; next_stretch(file, part, at, &stretch); at = stretch.last + 1) {
        count = hf_ranges_count_after(&file->ranges, &stretch);
        stretches++;
        if (stretch.last == part->last)
            break;
    }
    return stretches <= 1 ? count : file->ranges.count + stretches;
}

static void write_down(struct hf_keeper_files *files, struct hf_keeper_file *file,
                       const struct hf_span *part)
{
    files->n_spans -= file->ranges.count;
    hf_ranges_set(&file->ranges, part);
    files->n_spans += file->ranges.count;
}

/* Writes the claim into the ranges, now that the kernel has locked all its stretches. Room for the
 * spans was made before. */
static void write_down_claim(struct hf_keeper_files *files, struct hf_keeper_file *file,
                             const struct hf_span *part)
{
    struct hf_span stretch;

    for (uint64_t at = part->first; next_stretch(file, part, at, &stretch);) {
        write_down(files, file, &stretch);
        if (stretch.last == part->last)
            return;
        at = stretch.last + 1;
    }
}

/* Gives back the part of a claim that was taken before `end`. */
static void give_back(struct hf_keeper_file *file, const struct hf_span *part, uint64_t end)
{
    struct hf_span taken = {.first = part->first, .last = end - 1};

    if (end > part->first)
        hf_restore(file, &taken);
}

/* Takes one stretch of a claim. It tries twice: if the holder lets go between the refusal and the
 * question who holds the lock, there is no reason to refuse. */
static enum hf_keeper_status take(const struct hf_keeper_file *file, const struct hf_span *stretch,
                                  struct hf_holder *holder)
{
    for (unsigned tries = 0;; tries++) {
        if (hf_kernel_lock(file->fd, stretch) == 0)
            return HF_KEEPER_OK;
        if (errno != EAGAIN && errno != EACCES)
            return hf_status_of_errno(errno);
        if (hf_kernel_test(file->fd, stretch, holder) || tries == 1)
            return HF_KEEPER_CONFLICT;
    }
}

enum hf_keeper_status hf_keeper_claim(struct hf_keeper_files *files, struct hf_keeper_file *file,
                                      const struct hf_span *part, struct hf_holder *holder,
                                      struct hf_span *refused)
{
    struct hf_span stretch;
    uint32_t count;

    if (hf_ranges_cover(&file->ranges, part))
        return HF_KEEPER_OK;
    count = count_after(file, part);
    if (count > files->ranges_max && count > file->ranges.count)
        return HF_KEEPER_TOO_MANY_RANGES;
    if (hf_ranges_reserve(&file->ranges, count) < 0)
        return HF_KEEPER_NO_MEMORY;
    for (uint64_t at = part->first; next_stretch(file, part, at, &stretch);) {
        enum hf_keeper_status status = take(file, &stretch, holder);

        if (status != HF_KEEPER_OK) {
            *refused = stretch;
            give_back(file, part, stretch.first);
            return status;
        }
        if (stretch.last == part->last)
            break;
        at = stretch.last + 1;
    }
    write_down_claim(files, file, part);
    return HF_KEEPER_OK;
}

enum hf_keeper_status hf_keeper_set(struct hf_keeper_files *files, struct hf_keeper_file *file,
                                    const struct hf_span *part, struct hf_holder *holder)
{
    struct hf_span refused;

    for (uint64_t at = part->first;;) {
        struct hf_span stretch = hf_ranges_at(&file->ranges, at, part->last);

        if (stretch.mode > part->mode) {
            stretch.mode = part->mode;
            if (hf_ranges_reserve(&file->ranges, hf_ranges_count_after(&file->ranges, &stretch)) <
                0)
                return HF_KEEPER_NO_MEMORY;
            if (hf_kernel_lock(file->fd, &stretch) < 0)
                return HF_KEEPER_FAILED;
            write_down(files, file, &stretch);
        }
        if (stretch.last == part->last)
            break;
        at = stretch.last + 1;
    }
    return part->mode == HF_KEEPER_NONE ? HF_KEEPER_OK
                                        : hf_keeper_claim(files, file, part, holder, &refused);
}
