/*
 * Attack shapes that need more than the connections of one host: users of the server's own host,
 * many addresses at once, sources that are forged, and readers of lists.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"

enum {
    USER = 65534,           /* nobody */
    USER_CONNECTIONS = 600, /* more connections than one user may have */
    USER_BURST = 64,        /* requests in one write */
    NAME_ROOM = 32,
    HOSTS = 17, /* 17 times limits.calls_per_host are more than there can be */
    HELD_BURST = 500,
    STEP_NS = 1000000,
    SOURCES = 32,
    LOCK_OFFSET = 1000,
    LISTS = 60,
    SORTED_LISTS = 8,
    LIST_PIECE = 65536,
    PAUSE_MS = 100,
    PACKET_HEADERS = 28, /* IP and UDP */
};

static void pause_ns(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

    nanosleep(&t, NULL);
}

static const char *address_of(unsigned number)
{
    static _Thread_local char text[NAME_ROOM];

    (void)snprintf(text, sizeof(text), "192.0.2.%u", 10 + number); /* bench/hostile adds them */
    return text;
}

/* ---- local-user, hasty-user: an ordinary user of the server's host ---- */

/* Changes the user of this thread only: the C library would change that of all threads. */
static void become_user(void)
{
    if (syscall(SYS_setresuid, USER, USER, USER) < 0)
        die("setresuid");
}

static void ask_as_invented_clients(struct attack *attack, struct peer *p)
{
    static char names[USER_BURST][NAME_ROOM];

    for (unsigned i = 0; i < USER_BURST; i++) {
        uint64_t n = attack->next++;
        struct request r = {.proc = PROC_LOCK,
                            .name = names[i],
                            .file = (uint32_t)n,
                            .length = 1,
                            .exclusive = true};

        (void)snprintf(names[i], NAME_ROOM, "invented%llu", (unsigned long long)n);
        peer_put(p, &r);
        attack->sent++;
    }
    (void)peer_try_flush(p);
    peer_discard(p);
}

/* Attacks as a user of the server's host. hasty: closes connections at once, because the kernel
 * does not tell whose a connection was that is closed before it is accepted. The other user closes
 * no connection before the server has answered it, or closed it. */
static void run_as_user(struct attack *attack, bool hasty)
{
    static struct peer *peers[USER_CONNECTIONS];
    unsigned at = 0;

    become_user();
    while (!atomic_load(&attack->stop)) {
        struct peer **p = &peers[at++ % USER_CONNECTIONS];

        if (*p && (*p)->broken && !hasty)
            peer_discard(*p);
        if (*p && (*p)->broken && (hasty || (*p)->accepted)) {
            peer_del(*p);
            *p = NULL;
        }
        if (!*p)
            *p = peer_new_from_any_port("127.0.0.1", "user");
        if (*p && !(*p)->broken)
            ask_as_invented_clients(attack, *p);
    }
    for (unsigned i = 0; i < USER_CONNECTIONS; i++) {
        if (!peers[i])
            continue;
        for (peer_discard(peers[i]); !hasty && !peers[i]->accepted; peer_discard(peers[i]))
            pause_ns(STEP_NS);
        peer_del(peers[i]);
        peers[i] = NULL;
    }
}

void local_user_run(struct attack *attack)
{
    run_as_user(attack, false);
}

void hasty_user_run(struct attack *attack)
{
    run_as_user(attack, true);
}

/* ---- held-calls: UNLOCKs that wait for callbacks to lock managers that are silent ---- */

static void ask_and_pause(struct peer *p, struct request r)
{
    peer_put(p, &r);
    if (peer_try_flush(p))
        peer_discard(p);
    pause_ns(STEP_NS);
}

/* Holds one part of the file, so that its owner stays known, and waits for another part. */
static void begin_wait(struct peer *p, uint32_t file)
{
    struct request r = {
        .proc = PROC_LOCK, .file = file, .offset = LOCK_OFFSET, .length = 10, .exclusive = true};

    ask_and_pause(p, r);
    r.offset = 0;
    r.block = true;
    ask_and_pause(p, r);
}

static void flood_unlocks(struct attack *attack, struct peer *p, uint32_t file)
{
    struct request r = {.proc = PROC_UNLOCK, .file = file, .length = 10};

    for (unsigned i = 0; i < HELD_BURST && !p->broken; i++) {
        if (!peer_has_room(p) && !peer_try_flush(p))
            return;
        peer_put(p, &r);
        attack->sent++;
    }
    if (peer_try_flush(p))
        peer_discard(p);
}

static struct peer *fresh(struct peer *p, unsigned number)
{
    if (p && !p->broken)
        return p;
    if (p)
        peer_del(p);
    p = peer_new(address_of(number), target.host, false, "held");
    if (!p)
        die("connect");
    return p;
}

void held_calls_run(struct attack *attack)
{
    static struct peer *peers[HOSTS];
    static bool are_silent;
    struct peer *holder = peer_new(attack->from, target.host, false, "holder");

    for (unsigned i = 0; i < HOSTS && !are_silent; i++)
        be_silent(address_of(i));
    are_silent = true;
    if (!holder)
        die("connect");
    while (!atomic_load(&attack->stop)) {
        uint32_t first = (uint32_t)attack->next;

        for (unsigned i = 0; i < HOSTS; i++) {
            struct request r = {
                .proc = PROC_LOCK, .file = first + i, .length = 10, .exclusive = true};

            peers[i] = fresh(peers[i], i);
            peer_ask(holder, &r);
            begin_wait(peers[i], first + i);
            r.proc = PROC_UNLOCK;
            peer_ask(holder, &r);
        }
        for (unsigned turn = 0; turn < 4 && !atomic_load(&attack->stop); turn++) {
            for (unsigned i = 0; i < HOSTS; i++)
                flood_unlocks(attack, peers[i] = fresh(peers[i], i), first + i);
        }
        attack->next += HOSTS;
    }
    peer_del(holder);
}

/* ---- unproved: sources by UDP that have shown nothing, and whose portmappers are silent ---- */

static struct sources {
    struct peer *peers[SOURCES];
    int portmappers[SOURCES];
} sources;

static void count_arrivals(struct attack *attack, int fd)
{
    char room[2048];
    ssize_t n;

    while ((n = recv(fd, room, sizeof(room), MSG_DONTWAIT)) >= 0)
        attack->bytes_back += (uint64_t)n + PACKET_HEADERS;
}

static void count_all_arrivals(struct attack *attack)
{
    for (unsigned i = 0; i < SOURCES; i++) {
        count_arrivals(attack, sources.peers[i]->fd);
        count_arrivals(attack, sources.portmappers[i]);
    }
}

static void open_sources(void)
{
    for (unsigned i = 0; i < SOURCES && !sources.peers[i]; i++) {
        sources.portmappers[i] = be_silent(address_of(i));
        sources.peers[i] = peer_new(address_of(i), target.host, true, "unproved");
        if (!sources.peers[i])
            die("connect");
    }
}

static void send_datagram(struct attack *attack, struct peer *p, struct request r)
{
    peer_put(p, &r);
    attack->bytes_sent += p->out_len - 4 + PACKET_HEADERS; /* the packet has no record mark */
    peer_flush(p);
    attack->sent++;
}

/* Sends messages, and LOCKs that wait for what the attacker itself holds and gives up: each makes
 * the server call. */
void unproved_run(struct attack *attack)
{
    struct peer *holder = peer_new(attack->from, target.host, false, "holder");

    open_sources();
    if (!holder)
        die("connect");
    while (!atomic_load(&attack->stop)) {
        uint32_t file = (uint32_t)attack->next++;
        struct request r = {.proc = PROC_LOCK, .file = file, .length = 10, .exclusive = true};
        struct request waits = r;

        waits.block = true;
        peer_ask(holder, &r);
        send_datagram(attack, sources.peers[file % SOURCES], waits);
        pause_ns(STEP_NS);
        r.proc = PROC_UNLOCK;
        peer_ask(holder, &r);
        waits = (struct request){.proc = PROC_TEST_MSG, .file = file, .length = 10};
        send_datagram(attack, sources.peers[(file + 1) % SOURCES], waits);
        count_all_arrivals(attack);
    }
    pause_ns((uint64_t)2 * 1000000000); /* time for packets that are still on their way */
    count_all_arrivals(attack);
    peer_del(holder);
}

/* ---- lists: readers of the administration, as users ---- */

struct readers {
    struct attack *attack;
    const char *query;
    bool slow; /* reads one piece, waits, and reads the rest */
};

static int connect_to_lists(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons(ADMIN_PORT),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval wait = {.tv_sec = 1};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0)
        die("socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool read_piece(int fd)
{
    char room[LIST_PIECE];

    return recv(fd, room, sizeof(room), 0) > 0;
}

static void *read_lists(void *ctx)
{
    const struct readers *r = ctx;
    char question[256];
    int len = snprintf(
        question, sizeof(question),
        "GET /api/v1/locks?%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", r->query);

    become_user();
    while (!atomic_load(&r->attack->stop)) {
        int fd = connect_to_lists();

        if (fd < 0)
            continue;
        if (send(fd, question, (size_t)len, MSG_NOSIGNAL) == len && read_piece(fd)) {
            if (r->slow)
                pause_ns((uint64_t)PAUSE_MS * 1000000);
            while (!atomic_load(&r->attack->stop) && read_piece(fd))
                ;
            atomic_fetch_add(&r->attack->lists, 1);
        }
        close(fd);
    }
    return NULL;
}

/* Starts the readers; meanwhile runs what the attacker itself does, if there is anything. */
static void run_readers(struct readers *r, unsigned count, void (*meanwhile)(struct attack *attack))
{
    pthread_t threads[LISTS];

    for (unsigned i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, read_lists, r) != 0)
            die("pthread_create");
    }
    while (!atomic_load(&r->attack->stop)) {
        if (meanwhile)
            meanwhile(r->attack);
        else
            pause_ns(STEP_NS);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

void lists_run(struct attack *attack)
{
    struct readers r = {.attack = attack, .query = "limit=10000"};

    run_readers(&r, LISTS, NULL);
}

/* Releases all locks of the attacker, and takes them again. */
static void release_and_lock_again(struct attack *attack)
{
    enum { LOCKS = 20000, BURST = 100 };
    struct peer *p = attack->peers[0];

    peer_ask(p, &(struct request){.proc = PROC_FREE_ALL});
    for (unsigned i = 0; i < LOCKS && !atomic_load(&attack->stop);) {
        for (unsigned end = i + BURST; i < end; i++) {
            struct request r = {.proc = PROC_LOCK,
                                .file = 1,
                                .owner = LOCK_OFFSET + i / 10,
                                .offset = 2 * (uint64_t)i,
                                .length = 1,
                                .exclusive = true};
            peer_put(p, &r);
            attack->sent++;
        }
        peer_flush(p);
        peer_drain(p);
    }
}

void sorted_lists_run(struct attack *attack)
{
    struct readers r = {.attack = attack, .query = "sort=-held&limit=10000", .slow = true};

    run_readers(&r, SORTED_LISTS, release_and_lock_again);
}
