/* In holdfastd-mutants only: the environment says which mutant is active, before main() begins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mutant.h"

static const char *const names[] = {
#define X(name, text) #name,
    HF_MUTANTS(X)
#undef X
};

__attribute__((constructor)) static void choose_mutant(void)
{
    const char *wanted = getenv("HOLDFAST_MUTANT");

    for (int i = 0; wanted && i < HF_MUTANT_COUNT - 1; i++) {
        if (strcmp(names[i], wanted) == 0) {
            hf_mutant_active = (enum hf_mutant)(i + 1);
            return;
        }
    }
    if (wanted) {
        fprintf(stderr, "there is no mutant %s\n", wanted);
        exit(EXIT_FAILURE);
    }
}
