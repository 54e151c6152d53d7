/*
 * What an attacker would do who has taken over holdfast-namesd: confines itself as that does, then
 * tries one thing (attempts.h). Started with the user and the capability of its unit.
 *
 *     confined-namesd ATTEMPT [ARGUMENT]
 */
#include "attempts.h"

#include <stddef.h>

#include "namesd/confine.h"

int main(int argc, char **argv)
{
    if (argc < 2 || hf_namesd_confine() < 0)
        return 2;
    return attempt(argv[1], argc > 2 ? argv[2] : NULL);
}
