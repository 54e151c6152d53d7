/* The names of simulated machines, files and processes on the wire. */
#include "door.h"

#include "base/assert.h"

enum { FIRST_HOST_BYTE = 10, NAMES = SIM_HOSTS };

static enum sim_twins twins; /* the setting of the world that runs */

void sim_names_begin(enum sim_twins kind)
{
    twins = kind;
}

unsigned sim_machine(unsigned host)
{
    return twins == SIM_TWINS_NONE ? host : host & ~1u;
}

bool sim_is_same_address(unsigned host, unsigned other)
{
    return host == other || (sim_machine(host) == sim_machine(other) && twins != SIM_TWINS_ADDRESS);
}

bool sim_is_same_server(unsigned host, unsigned other)
{
    return host == other || (sim_machine(host) == sim_machine(other) && twins != SIM_TWINS_SERVER);
}

struct hf_addr sim_host_addr(unsigned host)
{
    unsigned n = twins == SIM_TWINS_ADDRESS ? host : sim_machine(host);

    return (struct hf_addr){.family = HF_ADDR_IPV4,
                            .bytes = {192, 0, 2, (uint8_t)(FIRST_HOST_BYTE + n)}};
}

/* A mount has one transport, and all locks that come by it have the same. */
enum hf_transport sim_host_transport(unsigned host)
{
    if (twins == SIM_TWINS_TRANSPORT)
        return host % 2 ? HF_TRANSPORT_UDP : HF_TRANSPORT_TCP;
    return sim_machine(host) % 3 == 1 ? HF_TRANSPORT_UDP : HF_TRANSPORT_TCP;
}

struct hf_addr sim_server_addr(unsigned host)
{
    uint8_t n = twins == SIM_TWINS_SERVER && host % 2 ? 2 : 1;

    return (struct hf_addr){.family = HF_ADDR_IPV4, .bytes = {192, 0, 2, n}};
}

int sim_host_of_addr(const struct hf_addr *addr)
{
    int host = addr->bytes[3] - FIRST_HOST_BYTE;

    return addr->family == HF_ADDR_IPV4 && host >= 0 && host < SIM_HOSTS ? host : -1;
}

int sim_host_of_record(const struct hf_record_client *client)
{
    int host = client->n_addrs > 0 ? sim_host_of_addr(&client->addrs[0]) : -1;

    if (host < 0 || client->protocol != HF_PROTOCOL_NLM)
        return host;
    for (unsigned h = sim_machine((unsigned)host); h < SIM_HOSTS; h++) {
        struct hf_addr addr = sim_host_addr(h);
        struct hf_addr local = sim_server_addr(h);

        if (client->transport == sim_host_transport(h) &&
            hf_addr_same_host(&client->addrs[0], &addr) &&
            hf_addr_same_host(&client->local, &local))
            return (int)h;
    }
    return -1;
}

struct hf_bytes sim_host_name(unsigned host, enum sim_name name)
{
    static const char *const names[NAMES][2] = {
        {"ant.lab.example", "ant"}, {"bee.lab.example", "bee"}, {"cat.lab.example", "cat"},
        {"dog.lab.example", "dog"}, {"eel.lab.example", "eel"}, {"fox.lab.example", "fox"},
    };

    HF_ASSERT(host < NAMES);
    return hf_bytes_str(names[sim_machine(host)][name]);
}

struct hf_bytes sim_server_name(void)
{
    return hf_bytes_str("server.lab.example");
}

/* Makes handles of different lengths, one the prefix of another: such handles have been confused
 * before. */
struct hf_bytes sim_file_handle(unsigned file)
{
    static const uint8_t handle[] = {1, 0, 7, 0, 42, 0, 0, 9, 200, 13, 0, 5};
    static const uint8_t lengths[SIM_FILES] = {12, 8, 4};

    HF_ASSERT(file < SIM_FILES);
    return hf_bytes(handle, lengths[file]);
}

int sim_file_of_handle(struct hf_bytes fh)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        if (hf_bytes_equal(fh, sim_file_handle(f)))
            return (int)f;
    }
    return -1;
}

/* Makes an owner handle as Linux does: svid@nodename. Process SIM_PROCS is the liar of work.c. */
struct hf_bytes sim_owner_handle(unsigned host, unsigned proc)
{
    static const char *const handles[NAMES][SIM_PROCS + 1] = {
        {"0@ant", "1@ant", "2@ant"}, {"0@bee", "1@bee", "2@bee"}, {"0@cat", "1@cat", "2@cat"},
        {"0@dog", "1@dog", "2@dog"}, {"0@eel", "1@eel", "2@eel"}, {"0@fox", "1@fox", "2@fox"},
    };

    HF_ASSERT(host < NAMES && proc <= SIM_PROCS);
    return hf_bytes_str(handles[sim_machine(host)][proc]);
}
