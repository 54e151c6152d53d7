#include "ctl/confirm.h"

#include <stdio.h>
#include <unistd.h>

bool ctl_confirm(const struct ctl *ctl, const char *question)
{
    char answer[16] = "";

    if (ctl->yes)
        return true;
    if (!isatty(STDIN_FILENO)) {
        (void)fprintf(stderr,
                      "holdfastctl: cannot ask for confirmation without a terminal; use --yes\n");
        return false;
    }
    printf("%s [y/N] ", question);
    (void)fflush(stdout);
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}
