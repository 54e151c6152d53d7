/*
 * What an attacker would do who has taken over the daemon: confines itself as the daemon does, then
 * tries one thing (attempts.h).
 *
 *     confined STORE USER ATTEMPT [ARGUMENT]
 *
 * $CONFINED_READ: a file that it is configured with, to be read again at a reload.
 */
#include "confine/confine.h"

#include <stdio.h>
#include <stdlib.h>

#include "attempts.h"

int main(int argc, char **argv)
{
    static const char *const files[] = {"data.mdb", NULL};
    struct hf_confine confine = {0};
    char error[HF_CONFINE_ERROR_MAX];

    if (argc < 4)
        return 2;
    (void)hf_confine_begin();
    confine.write[0] = argv[1];
    confine.read[0] = getenv("CONFINED_READ");
    if (hf_confine_find_user(argv[2], &confine.user, error) < 0 ||
        hf_confine_give_directory(&confine.user, argv[1], files, error) < 0) {
        (void)fprintf(stderr, "%s\n", error);
        return 2;
    }
    if (hf_confine(&confine) < 0)
        return 2;
    return attempt(argv[3], argc > 4 ? argv[4] : NULL);
}
