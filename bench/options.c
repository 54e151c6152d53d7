/* The options of holdfast-bench: one table for reading, checking and explaining them. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

struct options opt = {
    .host = "127.0.0.1",
    .mix_text = "lock",
    .port = 4045,
    .connections = 8,
    .in_flight = 16,
    .seconds = 3,
    .warmup = 0.5,
};

enum kind { FLAG, TEXT, COUNT, SECONDS };

static const struct rule {
    const char *name;
    enum kind kind;
    void *to;
    uint64_t min, max; /* of a count */
    const char *help;
} RULES[] = {
    {"host", TEXT, &opt.host, 0, 0, "IPv4 address of the server (127.0.0.1)"},
    {"port", COUNT, &opt.port, 1, 65535, "its port (4045)"},
    {"udp", FLAG, &opt.udp, 0, 0, "over UDP instead of TCP"},
    {"mix", TEXT, &opt.mix_text, 0, 0,
     "lock, test, denied, mon, null, wait or share; or several with weights,\n"
     "                     as in lock:4,test:4,denied:2 (lock)"},
    {"connections", COUNT, &opt.connections, 1, 1000000, "(8)"},
    {"in-flight", COUNT, &opt.in_flight, 1, 65536, "requests in flight on each (16)"},
    {"idle", COUNT, &opt.idle, 0, 1000000, "further connections that say nothing, over TCP (0)"},
    {"seconds", SECONDS, &opt.seconds, 0, 0, "how long to measure (3)"},
    {"warmup", SECONDS, &opt.warmup, 0, 0, "seconds before that which do not count (0.5)"},
    {"requests", COUNT, &opt.requests, 1, UINT64_MAX,
     "measure so many requests, from the first, instead of by time"},
    {"rate", COUNT, &opt.rate, 1, 1000000000,
     "requests a second; latencies count from when each was due"},
    {"held", COUNT, &opt.held, 0, 100000000, "locks that another owner holds throughout (0)"},
    {"fh", TEXT, &opt.fh_text, 0, 0,
     "lock ranges of the files with these handles (hex, with commas between),\n"
     "                     which bench/handle asks a server for, not of files that are made up"},
    {"times", TEXT, &opt.times, 0, 0,
     "a file for the times of each request: due, sent, answered (three 64-bit\n"
     "                     numbers, nanoseconds of the monotonic clock), as bench/tails reads it"},
    {"spin", FLAG, &opt.spin, 0, 0,
     "never sleep, so that the server does not pay for waking this program"},
    {"json", FLAG, &opt.json, 0, 0, "one line of JSON"},
};

enum { RULE_COUNT = sizeof(RULES) / sizeof(RULES[0]) };

static void print_help(void)
{
    static const char *const ARGUMENTS[] = {"", " TEXT", " N", " N"};

    puts("Usage: holdfast-bench [OPTION]...\n"
         "Loads an NLM (version 4) or NSM (version 1) server and checks every answer.\n");
    for (unsigned i = 0; i < RULE_COUNT; i++) {
        char option[32];
        snprintf(option, sizeof(option), "--%s%s", RULES[i].name, ARGUMENTS[RULES[i].kind]);
        printf("  %-18s %s\n", option, RULES[i].help);
    }
}

static _Noreturn void refuse(const char *name, const char *value)
{
    fprintf(stderr, "holdfast-bench: --%s does not take '%s'; see --help\n", name, value);
    exit(2);
}

static bool read_count(const char *text, char **end, uint64_t min, uint64_t max, uint64_t *out)
{
    errno = 0;
    *out = strtoull(text, end, 10);
    return isdigit((unsigned char)*text) && !errno && *out >= min && *out <= max;
}

static void take_option(const struct rule *rule, const char *value)
{
    char *end = NULL;

    switch (rule->kind) {
    case FLAG:
        *(bool *)rule->to = true;
        break;
    case TEXT:
        *(const char **)rule->to = value;
        break;
    case COUNT:
        if (!read_count(value, &end, rule->min, rule->max, rule->to) || *end)
            refuse(rule->name, value);
        break;
    case SECONDS:
        *(double *)rule->to = strtod(value, &end);
        if (end == value || *end || !(*(double *)rule->to >= 0 && *(double *)rule->to <= 86400))
            refuse(rule->name, value);
        break;
    }
}

/* NAME[:WEIGHT][,NAME[:WEIGHT]]... */
static bool parse_mix(const char *at)
{
    for (;; at++) {
        size_t len = strcspn(at, ":,");
        uint64_t weight = 1;
        enum op op = 0;

        while (op < OPS && (strlen(op_names[op]) != len || strncmp(at, op_names[op], len) != 0))
            op++;
        if (op == OPS)
            return false;
        at += len;
        if (*at == ':') {
            char *end;
            if (!read_count(at + 1, &end, 1, 1000, &weight))
                return false;
            at = end;
        }
        opt.weights[op] += weight;
        if (*at != ',')
            return !*at;
    }
}

static bool parse_fh(const char *at, size_t len, struct file *out)
{
    if (len == 0 || len % 2 || len > (size_t)FH_MAX * 2 ||
        strspn(at, "0123456789abcdefABCDEF") < len)
        return false;
    for (size_t i = 0; i < len; i += 2) {
        char digits[3] = {at[i], at[i + 1], 0};
        out->fh[out->len++] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return true;
}

/* HEX[,HEX]... */
static bool parse_fhs(const char *at)
{
    for (;; at++) {
        size_t len = strcspn(at, ",");

        opt.files = realloc(opt.files, (opt.file_count + 1) * sizeof(*opt.files));
        if (!opt.files)
            die("--fh");
        opt.files[opt.file_count] = (struct file){0};
        if (!parse_fh(at, len, &opt.files[opt.file_count++]))
            return false;
        at += len;
        if (!*at)
            return true;
    }
}

void options_parse(int argc, char **argv)
{
    struct option options[RULE_COUNT + 2] = {{"help", 0, NULL, 'h'}};
    struct in_addr addr;
    int which = 0;
    int o;

    for (unsigned i = 0; i < RULE_COUNT; i++)
        options[i + 1] = (struct option){RULES[i].name, RULES[i].kind != FLAG, NULL, 'o'};
    while ((o = getopt_long(argc, argv, "", options, &which)) != -1) {
        if (o == 'h') {
            print_help();
            exit(0);
        }
        if (o != 'o')
            exit(2); /* getopt has said what is wrong */
        take_option(&RULES[which - 1], optarg);
    }
    if (optind < argc) {
        fprintf(stderr, "holdfast-bench: what is '%s'? See --help\n", argv[optind]);
        exit(2);
    }
    if (inet_pton(AF_INET, opt.host, &addr) != 1)
        refuse("host", opt.host);
    if (!parse_mix(opt.mix_text))
        refuse("mix", opt.mix_text);
    if (opt.fh_text && !parse_fhs(opt.fh_text))
        refuse("fh", opt.fh_text);
}
