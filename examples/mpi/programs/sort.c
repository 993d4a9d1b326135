/*
 * Sort: keys go to the ranks whose range they are in, how many is not known before.
 *
 *     mpicc -O2 sort.c -o sort -lm
 *     weft mpirun -n 4 --lab nodes=2 -- ./sort weft 100
 *
 * Every step has new keys, most of them near the middle of their range. The ranks tell each other
 * how many will come (MPI_Alltoall), exchange the keys (MPI_Alltoallv), and sort what has come.
 * Small: 256 keys of 4 bytes on each rank; large: 131072.
 * Any rank can make the keys of all: at the end of a block it does so, and compares what it has.
 */
#include "programs.h"
#include <stdint.h>

#define STEPS_MAX 10

static int keys;
static long first_step;
/* What this rank has for each step of a block; for each rank; what has come. */
static uint32_t *mine, *parted, *came, *spare, *right;
static int *out_counts, *out_places, *in_counts, *in_places, received;

static uint64_t hash(uint64_t x)
{
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

/* The sum of two random numbers. */
static uint32_t key(long of_step, long index)
{
    uint64_t random = hash(((uint64_t)of_step << 32) + index + 1);
    return (uint32_t)(((random >> 32) + (random & 0xffffffff)) / 2);
}

static int owner(uint32_t k)
{
    return (int)((uint64_t)k * ranks >> 32);
}

/* By digits of a byte, the lowest first. */
static void sort(uint32_t *all, uint32_t *other, int count)
{
    for (int shift = 0; shift < 32; shift += 8) {
        int ends[257] = {0};
        for (int i = 0; i < count; i++)
            ends[(all[i] >> shift & 255) + 1]++;
        for (int d = 0; d < 256; d++)
            ends[d + 1] += ends[d];
        for (int i = 0; i < count; i++)
            other[ends[all[i] >> shift & 255]++] = all[i];
        uint32_t *swap = all;
        all = other;
        other = swap;
    }
}

static int places(const int *counts, int *starts)
{
    int all = 0;
    for (int r = 0; r < ranks; all += counts[r++])
        starts[r] = all;
    return all;
}

static void part(const uint32_t *all)
{
    memset(out_counts, 0, ranks * sizeof *out_counts);
    for (int i = 0; i < keys; i++)
        out_counts[owner(all[i])]++;
    places(out_counts, out_places);
    for (int i = 0; i < keys; i++)
        parted[out_places[owner(all[i])]++] = all[i];
    places(out_counts, out_places);
}

static void one_step(int step)
{
    part(mine + (size_t)step * keys);
    IN_MPI(MPI_Alltoall(out_counts, 1, MPI_INT, in_counts, 1, MPI_INT, MPI_COMM_WORLD));
    received = places(in_counts, in_places);
    IN_MPI(MPI_Alltoallv(parted, out_counts, out_places, MPI_UINT32_T, came, in_counts, in_places,
                         MPI_UINT32_T, MPI_COMM_WORLD));
    sort(came, spare, received);
}

static void start(void)
{
    first_step += steps;
    for (int s = 0; s < steps; s++)
        for (int i = 0; i < keys; i++)
            mine[(size_t)s * keys + i] = key(first_step + s, (long)rank * keys + i);
}

static void block(void)
{
    for (int s = 0; s < steps; s++)
        one_step(s);
}

static void check(void)
{
    long step = first_step + steps - 1;
    int count = 0;

    for (long i = 0; i < (long)ranks * keys; i++)
        if (owner(key(step, i)) == rank)
            right[count++] = key(step, i);
    sort(right, spare, count);
    if (count != received)
        wrong("%d keys came, not %d", received, count);
    if (count > 0)
        SPOIL(came[count / 2]);
    for (int i = 0; i < count; i++)
        if (came[i] != right[i])
            wrong("key %d is %u, not %u", i, came[i], right[i]);
}

static void run(const struct word *word)
{
    keys = word->large ? 131072 : 256;
    size_t most = (size_t)keys * ranks * sizeof *mine;
    mine = memory((size_t)STEPS_MAX * keys * sizeof *mine);
    parted = memory(keys * sizeof *parted);
    came = memory(most);
    spare = memory(most);
    right = memory(most);
    out_counts = memory(4 * ranks * sizeof *out_counts);
    out_places = out_counts + ranks;
    in_counts = out_places + ranks;
    in_places = in_counts + ranks;
    struct plan plan = {.bytes = keys / ranks * sizeof *mine, .steps = STEPS_MAX, .start = start,
                        .block = block, .check = check};
    measure(word, &plan);
    free(mine);
    free(parted);
    free(came);
    free(spare);
    free(right);
    free(out_counts);
}

int main(int argc, char **argv)
{
    static const struct kernel own = {"sort", one_mode, two_sizes, NULL, run};
    return program(argc, argv, &own);
}
