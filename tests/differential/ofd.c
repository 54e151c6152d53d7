#include "ofd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "keeper/kernel_locks.h"

struct ofd {
    struct hf_keeper_files files;
    struct hf_keeper_file file;
    int probe; /* another open file description, which sees the locks of the first one */
};

struct ofd *ofd_new(void)
{
    struct ofd *ofd = calloc(1, sizeof(*ofd));
    char path[32];

    HF_ASSERT(ofd);
    ofd->files.ranges_max = 1000;
    ofd->file.fd = memfd_create("locked", MFD_CLOEXEC);
    HF_ASSERT(ofd->file.fd >= 0);
    ofd->file.writable = true;
    hf_ranges_init(&ofd->file.ranges);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", ofd->file.fd);
    ofd->probe = open(path, O_RDWR | O_CLOEXEC);
    HF_ASSERT(ofd->probe >= 0);
    return ofd;
}

void ofd_free(struct ofd *ofd)
{
    hf_ranges_free(&ofd->file.ranges);
    close(ofd->file.fd);
    close(ofd->probe);
    free(ofd);
}

uint64_t ofd_last(void)
{
    return HF_RANGE_LAST;
}

static bool span_of(uint64_t first, uint64_t last, unsigned mode, struct hf_span *out)
{
    static const enum hf_keeper_mode modes[] = {HF_KEEPER_NONE, HF_KEEPER_SHARED,
                                                HF_KEEPER_EXCLUSIVE};

    *out = (struct hf_span){first, last < HF_RANGE_LAST ? last : HF_RANGE_LAST, modes[mode]};
    return first <= HF_RANGE_LAST;
}

void ofd_raise(struct ofd *ofd, uint64_t first, uint64_t last, unsigned mode)
{
    struct hf_span part, refused;
    struct hf_holder holder;

    if (span_of(first, last, mode, &part))
        HF_ASSERT(hf_keeper_claim(&ofd->files, &ofd->file, &part, &holder, &refused) ==
                  HF_KEEPER_OK);
}

void ofd_set(struct ofd *ofd, uint64_t first, uint64_t last, unsigned mode)
{
    struct hf_holder holder;
    struct hf_span part;

    if (span_of(first, last, mode, &part))
        HF_ASSERT(hf_keeper_set(&ofd->files, &ofd->file, &part, &holder) == HF_KEEPER_OK);
}

unsigned ofd_seen(const struct ofd *ofd, uint64_t first, uint64_t last)
{
    struct hf_holder holder;
    struct hf_span part;

    if (!span_of(first, last, 2, &part) || !hf_kernel_test(ofd->probe, &part, &holder))
        return 0;
    return holder.mode == HF_KEEPER_EXCLUSIVE ? 2 : 1;
}
