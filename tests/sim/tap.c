#include "tap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"

static unsigned count;
static int failed;

void tap_result(bool good, const char *format, ...)
{
    va_list args;

    printf("%sok %u - ", good ? "" : "not ", ++count);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    failed += !good;
}

int tap_done(void)
{
    printf("1..%u\n", count);
    return failed;
}

bool tap_fork(struct tap_child *child)
{
    *child = (struct tap_child){.fd = memfd_create("stderr", 0)};
    fflush(stdout);
    child->pid = fork();
    HF_ASSERT(child->pid >= 0 && child->fd >= 0);
    if (child->pid == 0)
        dup2(child->fd, STDERR_FILENO);
    return child->pid == 0;
}

/* Finds the line of the check that ended the child: hf_panic(), UBSan's or AddressSanitizer's. */
static void read_words(struct tap_child *child)
{
    static const char *const checks[] = {"invariant broken at ",
                                         "runtime error: ", "AddressSanitizer: "};
    static char text[64 * 1024];
    ssize_t n = pread(child->fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    for (char *line = strtok(text, "\n"); line && !child->stopped_itself;
         line = strtok(NULL, "\n")) {
        for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
            child->stopped_itself |= strstr(line, checks[i]) != NULL;
        (void)snprintf(child->words, sizeof(child->words), "%s", line);
    }
}

bool tap_wait(struct tap_child *child)
{
    int status = 0;

    waitpid(child->pid, &status, 0);
    if (status != 0)
        read_words(child);
    close(child->fd);
    return status == 0;
}
