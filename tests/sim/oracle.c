#include "oracle.h"

#include <string.h>

const uint64_t sim_layouts[SIM_LAYOUTS][SIM_CELLS] = {
    {0, 1, 2, 3, 4, 5, 6, 7},
    {0, 10, 20, 30, 31, 32, 4096, 65536},
    {0, 1, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x100000000, 0x7fffffffffffffff},
    {0, 0x80000000, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffffffd,
     0xfffffffffffffffe, UINT64_MAX},
};

bool sim_range_of_bytes(unsigned layout, uint64_t first, uint64_t last, struct sim_range *range)
{
    bool starts = false;
    bool ends = false;

    for (uint8_t i = 0; i < SIM_CELLS; i++) {
        struct sim_range cell = {.first = i, .last = i};

        if (sim_first_byte(layout, cell) == first) {
            range->first = i;
            starts = true;
        }
        if (sim_last_byte(layout, cell) == last) {
            range->last = i;
            ends = true;
        }
    }
    return starts && ends && range->first <= range->last;
}

int sim_oracle_conflict(const struct sim_oracle *oracle, unsigned owner, struct sim_range range,
                        bool exclusive)
{
    for (unsigned other = 0; other < SIM_OWNERS; other++) {
        if (other == owner)
            continue;
        for (unsigned c = range.first; c <= range.last; c++) {
            uint8_t mode = oracle->mode[range.file][c][other];

            if (mode == SIM_EXCLUSIVE || (mode == SIM_SHARED && exclusive))
                return (int)other;
        }
    }
    return -1;
}

void sim_oracle_set(struct sim_oracle *oracle, unsigned owner, struct sim_range range,
                    enum sim_mode mode)
{
    for (unsigned c = range.first; c <= range.last; c++)
        oracle->mode[range.file][c][owner] = (uint8_t)mode;
}

void sim_oracle_add(struct sim_oracle *oracle, unsigned owner, struct sim_range range,
                    enum sim_mode mode)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (oracle->mode[range.file][c][owner] < mode)
            oracle->mode[range.file][c][owner] = (uint8_t)mode;
    }
}

bool sim_oracle_holds(const struct sim_oracle *oracle, unsigned owner, struct sim_range range,
                      enum sim_mode mode)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (oracle->mode[range.file][c][owner] != mode)
            return false;
    }
    return true;
}

bool sim_oracle_holds_all(const struct sim_oracle *oracle, unsigned owner, struct sim_range range)
{
    for (unsigned c = range.first; c <= range.last; c++) {
        if (oracle->mode[range.file][c][owner] == SIM_FREE)
            return false;
    }
    return true;
}

void sim_oracle_drop_host(struct sim_oracle *oracle, unsigned host)
{
    for (unsigned f = 0; f < SIM_FILES; f++) {
        for (unsigned c = 0; c < SIM_CELLS; c++)
            memset(&oracle->mode[f][c][sim_owner(host, 0)], SIM_FREE, SIM_PROCS);
    }
}

bool sim_oracle_next_run(const struct sim_oracle *oracle, unsigned owner, struct sim_range *range,
                         enum sim_mode *mode)
{
    unsigned f = range->file;
    unsigned c = *mode == SIM_FREE ? 0 : range->last + 1u;

    for (; f < SIM_FILES; f++, c = 0) {
        while (c < SIM_CELLS && oracle->mode[f][c][owner] == SIM_FREE)
            c++;
        if (c == SIM_CELLS)
            continue;
        *mode = (enum sim_mode)oracle->mode[f][c][owner];
        *range = (struct sim_range){(uint8_t)f, (uint8_t)c, (uint8_t)c};
        while (range->last + 1 < SIM_CELLS && oracle->mode[f][range->last + 1][owner] == *mode)
            range->last++;
        return true;
    }
    return false;
}
