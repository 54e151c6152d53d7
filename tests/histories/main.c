/* hf-check-history: decides whether a history of lock requests is linearizable. See check.h. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const char help[] =
    "hf-check-history [--picture FILE.svg] [HISTORY]: is there an order of these lock requests "
    "that\n"
    "explains every answer? Reads a history (tests/histories/history.h) from a file or from "
    "standard\n"
    "input and checks it file by file.\n"
    "\n"
    "Exit status: 0 yes; 1 no, with the smallest part that fails; 2 not a history; 3 undecided.\n";

enum { YES, NO, NOT_A_HISTORY, UNDECIDED };

static void print_state(const struct history *history, const struct model_state *state)
{
    for (unsigned c = 0; c < HISTORY_CELLS; c++) {
        for (unsigned o = 0; o < history->n_owners; o++) {
            bool exclusive = state->exclusive[c] == o + 1;

            if (exclusive || state->shared[c] >> o & 1)
                printf("#   before: cell %u is held by %u.%u, %s\n", c, history->owners[o].host,
                       history->owners[o].process, exclusive ? "exclusive" : "shared");
        }
    }
}

static void explain(const struct history *history, const struct history_file *file,
                    const struct check_result *result, const char *picture)
{
    struct model_state from;
    size_t n, failed;
    struct history_op *ops = check_smallest(file->ops, file->n_ops, result, &n, &failed, &from);
    FILE *svg;

    printf("violation: file %s, no order explains: ", file->name);
    history_print_op(history, &file->ops[result->failed_op], stdout);
    printf("\n# the smallest part that fails, %zu of %zu operations:\n", n, file->n_ops);
    print_state(history, &from);
    for (size_t i = 0; i < n; i++) {
        printf("%s ", file->name);
        history_print_op(history, &ops[i], stdout);
        putchar('\n');
    }
    svg = picture ? fopen(picture, "w") : NULL;
    if (svg) {
        check_picture(history, ops, n, failed, svg);
        (void)fclose(svg);
    }
    free(ops);
}

static int check(const struct history *history, const char *picture)
{
    static const struct model_state empty;
    size_t n_ops = 0, most = 0;
    int status = YES;

    for (size_t i = 0; i < history->n_files; i++) {
        const struct history_file *file = &history->files[i];
        struct check_result result = check_ops(file->ops, file->n_ops, &empty);

        n_ops += file->n_ops;
        most = result.configurations > most ? result.configurations : most;
        if (result.verdict == CHECK_VIOLATION) {
            explain(history, file, &result, status == NO ? NULL : picture);
            status = NO;
        } else if (result.verdict == CHECK_TOO_MANY && status == YES) {
            printf("undecided: file %s: too many operations at a time\n", file->name);
            status = UNDECIDED;
        }
    }
    printf("# %zu operations on %zu files, at most %zu configurations: %s\n", n_ops,
           history->n_files, most,
           status == YES  ? "linearizable"
           : status == NO ? "NOT linearizable"
                          : "undecided");
    return status;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"picture", required_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'}, {0}};
    const char *picture = NULL;
    struct history history;
    char error[256];
    FILE *in = stdin;
    int option, status;

    while ((option = getopt_long(argc, argv, "p:h", options, NULL)) >= 0) {
        if (option == 'h') {
            fputs(help, stdout);
            return YES;
        }
        if (option != 'p') {
            fputs(help, stderr);
            return NOT_A_HISTORY;
        }
        picture = optarg;
    }
    if (optind < argc && !(in = fopen(argv[optind], "r"))) {
        perror(argv[optind]);
        return NOT_A_HISTORY;
    }
    if (!history_read(&history, in, error)) {
        fprintf(stderr, "%s\n", error);
        history_free(&history);
        return NOT_A_HISTORY;
    }
    status = check(&history, picture);
    history_free(&history);
    if (in != stdin)
        (void)fclose(in);
    return status;
}
