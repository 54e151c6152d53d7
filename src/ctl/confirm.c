#include "ctl/confirm.h"

#include <stdio.h>
#include <unistd.h>

bool ctl_confirm(const struct ctl *ctl, const char *question)
{
    char answer[16] = "";

    if (ctl->yes)
        return true;
    if (!isatty(STDIN_FILENO)) {
        (void)fprintf(stderr, "holdfastctl: nobody to ask; say --yes if you mean it\n");
        return false;
    }
    printf("%s [y/N] ", question);
    (void)fflush(stdout);
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}
