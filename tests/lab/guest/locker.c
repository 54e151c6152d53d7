/*
 * An application in a guest: takes locks on one file as it is told on standard input, and says
 * what it got. One process, so one owner of fcntl locks.
 *
 *   locker FILE
 *
 *   set r|w START LENGTH    fcntl, at once     granted | refused ERROR
 *   wait r|w START LENGTH   fcntl, blocking    waiting, then granted | interrupted | refused ERROR
 *   free START LENGTH       fcntl, unlock      freed | refused ERROR
 *   get r|w START LENGTH    F_GETLK            nobody | held r|w START LENGTH pid PID
 *   flock s|x|u [now]       flock              waiting (unless now), then as above
 *   churn SECONDS           takes a lock, adds one to a number in the file, lets go, as fast as it
 *                           can, or until /tmp/enough is there: churned TIMES longest MS errors N
 *   number                  that number, read under a lock
 *
 * SIGUSR1 interrupts a wait: its handler does nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* Where churn keeps its number, and the lock around it: far from the ranges that the stories lock.
 */
enum { NUMBER_AT = 0, NUMBER_LOCK_AT = 1000000 };

static int file;

static void on_signal(int number)
{
    (void)number;
}

static const char *error_name(int error)
{
    switch (error) {
    case EAGAIN:
    case EACCES:
        return "EAGAIN";
    case EDEADLK:
        return "EDEADLK";
    case ENOLCK:
        return "ENOLCK";
    case EIO:
        return "EIO";
    default:
        return strerror(error);
    }
}

static void say(int result, const char *success)
{
    if (result >= 0)
        puts(success);
    else if (errno == EINTR)
        puts("interrupted");
    else
        printf("refused %s\n", error_name(errno));
}

static int range(int command, char type, long long start, long long length)
{
    struct flock lock = {
        .l_type = type == 'w'   ? F_WRLCK
                  : type == 'r' ? F_RDLCK
                                : F_UNLCK,
        .l_whence = SEEK_SET,
        .l_start = start,
        .l_len = length,
    };
    int rv = fcntl(file, command, &lock);

    if (command == F_GETLK && rv == 0) {
        if (lock.l_type == F_UNLCK)
            puts("nobody");
        else
            printf("held %c %lld %lld pid %d\n", lock.l_type == F_WRLCK ? 'w' : 'r',
                   (long long)lock.l_start, (long long)lock.l_len, (int)lock.l_pid);
    }
    return rv;
}

static void whole_file(const char *kind, int now)
{
    int how = kind[0] == 's' ? LOCK_SH : kind[0] == 'x' ? LOCK_EX : LOCK_UN;

    if (how == LOCK_UN) {
        say(flock(file, LOCK_UN), "freed");
        return;
    }
    if (!now)
        puts("waiting");
    say(flock(file, how | (now ? LOCK_NB : 0)), "granted");
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Adds to the number under the lock; -1 if anything failed. */
static int add(uint64_t amount, uint64_t *number)
{
    int rv = 0;

    if (range(F_SETLKW, 'w', NUMBER_LOCK_AT, 1) < 0)
        return -1;
    *number = 0;
    if (pread(file, number, sizeof(*number), NUMBER_AT) < 0)
        rv = -1;
    *number += amount;
    if (amount && pwrite(file, number, sizeof(*number), NUMBER_AT) != sizeof(*number))
        rv = -1;
    if (range(F_SETLK, 'u', NUMBER_LOCK_AT, 1) < 0)
        rv = -1;
    return rv;
}

static void churn(long seconds)
{
    int64_t end = now_ms() + seconds * 1000, longest = 0;
    unsigned long times = 0, errors = 0;
    uint64_t number;

    while (now_ms() < end && access("/tmp/enough", F_OK) < 0) {
        int64_t start = now_ms();

        if (add(1, &number) < 0) {
            printf("churn: %s\n", error_name(errno));
            errors++;
        } else {
            times++;
        }
        if (now_ms() - start > longest)
            longest = now_ms() - start;
    }
    printf("churned %lu longest %lld errors %lu\n", times, (long long)longest, errors);
}

static void obey(const char *text)
{
    char verb[16] = "", word[16] = "", more[16] = "";
    long long start = 0, length = 0;
    uint64_t number;

    if (sscanf(text, "free %lld %lld", &start, &length) == 2) {
        say(range(F_SETLK, 'u', start, length), "freed");
        return;
    }
    sscanf(text, "%15s %15s %15s", verb, word, more);
    sscanf(text, "%*s %*s %lld %lld", &start, &length);
    if (strcmp(verb, "set") == 0) {
        say(range(F_SETLK, word[0], start, length), "granted");
    } else if (strcmp(verb, "wait") == 0) {
        puts("waiting");
        say(range(F_SETLKW, word[0], start, length), "granted");
    } else if (strcmp(verb, "get") == 0) {
        if (range(F_GETLK, word[0], start, length) < 0)
            say(-1, "");
    } else if (strcmp(verb, "flock") == 0) {
        whole_file(word, strcmp(more, "now") == 0);
    } else if (strcmp(verb, "churn") == 0) {
        churn(atol(word));
    } else if (strcmp(verb, "number") == 0 && add(0, &number) == 0) {
        printf("number %llu\n", (unsigned long long)number);
    } else {
        printf("what is: %s\n", text);
    }
}

int main(int argc, char **argv)
{
    /* Without SA_RESTART, a signal ends a wait. */
    struct sigaction action = {.sa_handler = on_signal};
    char line[256];

    setvbuf(stdout, NULL, _IOLBF, 0);
    sigaction(SIGUSR1, &action, NULL);
    file = argc == 2 ? open(argv[1], O_RDWR | O_CREAT, 0666) : -1;
    if (file < 0) {
        printf("cannot open: %s\n", strerror(errno));
        return 1;
    }
    puts("open");
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(line);
    }
    return 0;
}
