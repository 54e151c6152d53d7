/*
 * The lab's hand inside a guest: runs programs for the host, over a serial line, so that a guest
 * can be spoken to while its network is cut. Many programs at a time, each under a tag.
 *
 *   from the host   run TAG COMMAND...   starts it under a shell
 *                   in TAG TEXT          one line for its standard input
 *                   sig TAG NUMBER       a signal to it
 *   to the host     TAG : TEXT           one line it printed (both outputs)
 *                   TAG = STATUS         it has ended (128 + signal, where one ended it)
 *
 * Static, one process, one poll loop; runs as a child of init in a machine that lives for minutes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { JOBS_MAX = 64, TAG_MAX = 32, LINE_MAX_BYTES = 1024 };

struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
};

struct job {
    char tag[TAG_MAX];
    pid_t pid; /* 0: free slot */
    int in, out;
    struct line line;
};

static struct job jobs[JOBS_MAX];

static struct job *find(const char *tag)
{
    for (size_t i = 0; i < JOBS_MAX; i++)
        if (jobs[i].pid && strcmp(jobs[i].tag, tag) == 0)
            return &jobs[i];
    return NULL;
}

static void tell(const char *tag, char kind, const char *text)
{
    printf("%s %c %s\n", tag, kind, text);
    fflush(stdout);
}

static void child(const char *command, int in, int out)
{
    dup2(in, 0);
    dup2(out, 1);
    dup2(out, 2);
    setsid();
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void start(const char *tag, const char *command)
{
    int in[2], out[2];
    struct job *job = jobs;

    while (job < jobs + JOBS_MAX && job->pid)
        job++;
    if (job == jobs + JOBS_MAX || strlen(tag) >= TAG_MAX || pipe2(in, O_CLOEXEC) < 0 ||
        pipe2(out, O_CLOEXEC) < 0) {
        tell(tag, '=', "126");
        return;
    }
    job->pid = fork();
    if (job->pid == 0)
        child(command, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    strcpy(job->tag, tag);
    job->in = in[1];
    job->out = out[0];
    job->line.len = 0;
}

static void obey(char *text)
{
    char *save = NULL;
    char *verb = strtok_r(text, " ", &save);
    char *tag = strtok_r(NULL, " ", &save);
    struct job *job = tag ? find(tag) : NULL;

    if (!verb || !tag)
        return;
    if (strcmp(verb, "run") == 0) {
        start(tag, save);
    } else if (job && strcmp(verb, "in") == 0) {
        dprintf(job->in, "%s\n", save);
    } else if (job && strcmp(verb, "sig") == 0) {
        kill(job->pid, atoi(save));
    }
}

/* Reads what has arrived and hands on whole lines; false at the end. */
static bool read_lines(int fd, struct line *line, struct job *job)
{
    char bytes[512];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] != '\n' && line->len < sizeof(line->text) - 1) {
            line->text[line->len++] = bytes[i];
            continue;
        }
        line->text[line->len] = '\0';
        line->len = 0;
        if (job)
            tell(job->tag, ':', line->text);
        else
            obey(line->text);
    }
    return n > 0 || (n < 0 && errno == EINTR);
}

static void finish(struct job *job)
{
    char text[16];
    int status;

    close(job->in);
    close(job->out);
    waitpid(job->pid, &status, 0);
    snprintf(text, sizeof(text), "%d",
             WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    tell(job->tag, '=', text);
    job->pid = 0;
}

int main(void)
{
    struct termios line;
    struct line commands = {.len = 0};

    if (tcgetattr(0, &line) == 0) {
        cfmakeraw(&line);
        tcsetattr(0, TCSANOW, &line);
    }
    signal(SIGPIPE, SIG_IGN);
    tell("agent", ':', "ready");
    for (;;) {
        struct pollfd fds[JOBS_MAX + 1] = {{.fd = 0, .events = POLLIN}};

        for (size_t i = 0; i < JOBS_MAX; i++)
            fds[i + 1] = (struct pollfd){.fd = jobs[i].pid ? jobs[i].out : -1, .events = POLLIN};
        if (poll(fds, JOBS_MAX + 1, -1) < 0)
            continue;
        if (fds[0].revents && !read_lines(0, &commands, NULL))
            return 0;
        for (size_t i = 0; i < JOBS_MAX; i++)
            if (fds[i + 1].fd >= 0 && fds[i + 1].revents &&
                !read_lines(jobs[i].out, &jobs[i].line, &jobs[i]))
                finish(&jobs[i]);
    }
}
