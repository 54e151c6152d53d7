/*
 * Preloaded into a daemon: the kernel's pages have as many bytes as $PAGE_SIZE says, as on arm64,
 * where Debian has kernels with pages of 4 and of 16 KiB, and others have 64 KiB. LMDB makes a new
 * file with pages of that size.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

long sysconf(int name)
{
    const char *size = getenv("PAGE_SIZE");
    long (*next)(int);

    if (name == _SC_PAGESIZE && size)
        return atol(size);
    *(void **)&next = dlsym(RTLD_NEXT, "sysconf");
    return next ? next(name) : -1;
}
