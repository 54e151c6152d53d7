#include "ctl/progress.h"
#include "base/text.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };

const char *ctl_bar(double done, double all, char text[CTL_WORD_MAX])
{
    int full = all > 0 ? (int)(done / all * BAR_WIDTH) : BAR_WIDTH;

    hf_format(text, CTL_WORD_MAX, "[%.*s%.*s]", full, "########################", BAR_WIDTH - full,
              "........................");
    return text;
}

int ctl_follow(struct ctl *ctl, const char *path, ctl_describe describe)
{
    static const struct timespec PAUSE = {.tv_nsec = 300000000};
    bool terminal = isatty(STDOUT_FILENO);
    char text[CTL_WORD_MAX];
    bool more;

    do {
        json_t *answer;
        int rv = ctl_ask(ctl, "GET", path, NULL, &answer);

        if (rv != CTL_OK)
            return rv;
        more = describe(answer, text);
        json_decref(answer);
        if (terminal && !ctl->json)
            printf("\r\033[K%s", text);
        else if (!more && !ctl->json)
            printf("%s", text);
        (void)fflush(stdout);
        if (more)
            nanosleep(&PAUSE, NULL);
    } while (more);
    if (!ctl->json)
        putchar('\n');
    return CTL_OK;
}
