#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/assert.h"
#include "base/programs.h"
#include "base/text.h"
#include "ctl/doctor.h"

enum {
    WAIT_MS = 2000,
    RPCBIND_PORT = 111,
    RPCBIND_GETPORT = 3,
    CALL_WORDS = 10, /* the length of a call header with AUTH_NONE twice (RFC 5531) */
    ARGS_MAX = 4,
    REPLY_WORDS = 7, /* the length of an accepted reply with one word of results */
};

struct call {
    struct hf_addr at;
    uint32_t prog, vers, proc;
    uint32_t args[ARGS_MAX];
    size_t n_args;
};

/* Sends an RPC call and waits for the reply. Returns how many bytes came, or a negative errno. */
static ssize_t exchange(const struct call *call, uint32_t *reply, size_t size)
{
    uint32_t words[CALL_WORDS + ARGS_MAX] = {(uint32_t)getpid(), 0,          2,
                                             call->prog,         call->vers, call->proc};
    struct sockaddr_storage to;
    socklen_t to_len = hf_addr_to_sockaddr(&call->at, &to);
    int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    size_t n_words = CALL_WORDS + call->n_args;
    ssize_t len = -1;

    if (fd < 0)
        return -errno;
    memcpy(words + CALL_WORDS, call->args, call->n_args * sizeof(*words));
    for (size_t i = 0; i < n_words; i++)
        words[i] = htonl(words[i]);
    errno = ETIMEDOUT;
    if (connect(fd, (struct sockaddr *)&to, to_len) == 0 &&
        send(fd, words, n_words * sizeof(*words), 0) > 0 && poll(&ready, 1, WAIT_MS) == 1)
        len = recv(fd, reply, size, 0);
    len = len < 0 ? -errno : len;
    close(fd);
    return len;
}

/* Makes an RPC call. Returns 0 and the first word of the results; ECONNREFUSED if nothing listens;
 * ETIMEDOUT without an answer; EPROTO if another service answers there. */
static int ask(const struct call *call, uint32_t *out)
{
    uint32_t reply[64] = {0};
    ssize_t len = exchange(call, reply, sizeof(reply));

    if (len < 0)
        return len == -EAGAIN ? ETIMEDOUT : (int)-len;
    if (len < (ssize_t)((REPLY_WORDS - 1) * sizeof(*reply)) || ntohl(reply[1]) != 1 ||
        reply[2] != 0 || reply[4] != 0 || reply[5] != 0)
        return EPROTO;
    if (out)
        *out = ntohl(reply[REPLY_WORDS - 1]);
    return 0;
}

static uint16_t port_of(const struct doctor *doctor)
{
    return (uint16_t)ctl_number(doctor->status, "port");
}

/* Returns the first address that the daemon listens on; loopback if it listens on all of them. */
static struct hf_addr listen_address(const struct doctor *doctor)
{
    const json_t *all = json_object_get(doctor->status, "listen");
    const char *text = json_string_value(json_array_get(all, 0));
    const char *first = text ? text : "";
    struct hf_addr addr;

    if (strcmp(first, "0.0.0.0") == 0 || hf_addr_parse(first, &addr) < 0)
        (void)hf_addr_parse("127.0.0.1", &addr);
    else if (strcmp(first, "::") == 0)
        (void)hf_addr_parse("::1", &addr);
    addr.port = port_of(doctor);
    return addr;
}

struct program {
    const char *name;
    uint32_t prog, vers;
};

static const struct program PROGRAMS[] = {
    {"lock manager (NLM)", HF_PROGRAM_NLM, 4},
    {"status monitor (NSM)", HF_PROGRAM_NSM, 1},
};

#define KERNEL_ADVICE                                                                             \
    "the kernel's lockd, because of an NFSv3 mount or the kernel's NFS server on this host: end " \
    "those"
#define AGAIN          "; holdfastd then registers by itself"
#define GANESHA_ADVICE "NFS-Ganesha's: set Enable_NLM = false in its NFS_CORE_PARAM, and restart it"

/*
 * Returns what to do where another program is registered. rpcbind does not say which process that
 * is, and no process owns lockd's port; but Ganesha shows as a process and lockd as a kernel
 * thread.
 */
static const char *rival_advice(const struct program *p)
{
    bool lockd = doctor_runs("lockd");
    bool ganesha = doctor_runs("ganesha.nfsd");

    if (p->prog == HF_PROGRAM_NSM)
        return "another status monitor has registered, mostly rpc.statd: systemctl disable --now "
               "rpc-statd" AGAIN;
    if (ganesha && !lockd)
        return "another lock manager has registered, as it seems " GANESHA_ADVICE AGAIN;
    if (lockd && !ganesha)
        return "another lock manager has registered, as it seems " KERNEL_ADVICE AGAIN;
    return "another lock manager has registered, mostly " KERNEL_ADVICE
           "; or " GANESHA_ADVICE AGAIN;
}

void doctor_ports(struct doctor *doctor)
{
    struct hf_addr at = listen_address(doctor);
    char where[HF_ADDR_TEXT_MAX];
    char text[CTL_WORD_MAX];

    hf_addr_format_port(&at, where);
    for (size_t i = 0; i < HF_COUNT_OF(PROGRAMS); i++) {
        const struct program *p = &PROGRAMS[i];
        int error = ask(&(struct call){.at = at, .prog = p->prog, .vers = p->vers}, NULL);

        if (error == 0) {
            hf_format(text, sizeof(text), "the %s answers at %s", p->name, where);
            doctor_find(doctor, "ports", DOCTOR_OK, text, NULL);
        } else if (error == EPROTO && p->prog == HF_PROGRAM_NLM) {
            doctor->monitor_only = true;
            hf_format(text, sizeof(text), "the %s is the kernel's here (server.programs=nsm)",
                      p->name);
            doctor_find(doctor, "ports", DOCTOR_OK, text, NULL);
        } else {
            hf_format(text, sizeof(text), "the %s does not answer at %s: %s", p->name, where,
                      strerror(error));
            doctor_find(doctor, "ports", DOCTOR_FAIL, text,
                        "is the address one of this host, and does the firewall let the port pass? "
                        "See the log of holdfastd");
        }
    }
}

/* Finds where rpcbind sends a client that asks for the program over this transport. */
static int lookup(const struct program *p, uint32_t transport, uint32_t *port)
{
    struct call call = {.prog = HF_PROGRAM_RPCBIND,
                        .vers = 2,
                        .proc = RPCBIND_GETPORT,
                        .args = {p->prog, p->vers, transport, 0},
                        .n_args = 4};

    (void)hf_addr_parse("127.0.0.1", &call.at);
    call.at.port = RPCBIND_PORT;
    return ask(&call, port);
}

static void judge_port(struct doctor *doctor, const struct program *p, const char *transport,
                       uint32_t port)
{
    char text[CTL_WORD_MAX];

    if (port == 0) {
        hf_format(text, sizeof(text), "rpcbind does not know the %s over %s", p->name, transport);
        doctor_find(doctor, "rpcbind", DOCTOR_FAIL, text,
                    "clients cannot find it: see rpcbind.mode, and restart holdfastd");
    } else if (doctor->status && port != port_of(doctor)) {
        hf_format(text, sizeof(text),
                  "rpcbind sends clients to port %u for the %s over %s, but holdfastd is at %u",
                  port, p->name, transport, port_of(doctor));
        doctor->rival = true;
        doctor_find(doctor, "rpcbind", DOCTOR_FAIL, text, rival_advice(p));
    } else if (!doctor->status) {
        hf_format(text, sizeof(text),
                  "rpcbind sends clients to port %u for the %s over %s, but holdfastd is down",
                  port, p->name, transport);
        doctor->rival = true;
        doctor_find(doctor, "rpcbind", DOCTOR_FAIL, text, rival_advice(p));
    } else {
        hf_format(text, sizeof(text), "rpcbind sends clients to port %u for the %s over %s", port,
                  p->name, transport);
        doctor_find(doctor, "rpcbind", DOCTOR_OK, text, NULL);
    }
}

void doctor_nfs4(struct doctor *doctor)
{
    static const struct program NFS4 = {"NFS", HF_PROGRAM_NFS, 4};
    uint32_t port = 0;

    if (!doctor_is_coherent(doctor) && !doctor->monitor_only &&
        lookup(&NFS4, IPPROTO_TCP, &port) == 0 && port != 0)
        doctor_find(
            doctor, "NFSv4", DOCTOR_WARN,
            "the file server of this host serves NFSv4 too, whose locks holdfastd does not "
            "know",
            "a lock by NFSv3 and one by NFSv4 on the same file do not exclude each other: run "
            "holdfast-keeper (docs/operating/MIXED-ACCESS.md), or switch NFSv4 off at the file "
            "server, or mount each export by one version only");
}

void doctor_rpcbind(struct doctor *doctor)
{
    static const struct {
        const char *name;
        uint32_t number;
    } TRANSPORTS[] = {{"UDP", IPPROTO_UDP}, {"TCP", IPPROTO_TCP}};

    for (size_t i = 0; i < HF_COUNT_OF(PROGRAMS); i++) {
        if (doctor->monitor_only && PROGRAMS[i].prog == HF_PROGRAM_NLM)
            continue; /* the kernel registers its lock manager while it has one */
        for (size_t t = 0; t < HF_COUNT_OF(TRANSPORTS); t++) {
            uint32_t port = 0;
            int error = lookup(&PROGRAMS[i], TRANSPORTS[t].number, &port);

            if (error) {
                doctor_find(doctor, "rpcbind", DOCTOR_FAIL,
                            error == ECONNREFUSED ? "no rpcbind runs on this host"
                                                  : "rpcbind does not answer on this host",
                            "clients find the lock manager by rpcbind: systemctl start rpcbind, or "
                            "set rpcbind.mode=embedded");
                return;
            }
            judge_port(doctor, &PROGRAMS[i], TRANSPORTS[t].name, port);
        }
    }
}
