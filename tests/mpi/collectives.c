/*
 * Collective operations against what the MPI library itself gives (PMPI_*), on communicators of all
 * kinds, with all datatypes, sizes, operators and threads. Meant for `weft mpirun --collectives`,
 * but right under any MPI.
 *
 *   collectives [--seed S] [--rounds N] [--largest BYTES] [--threads] [--no-windows] [--in-order]
 *               [--weft N] [--choices A/B/...] [--die WHERE]
 *
 * --in-order: fails if a barrier overtakes what was sent before it: MPI does not forbid that, but
 * within a node, a library's own barrier never does. --weft N: fails unless Weft has done N
 * operations or more in each process. --choices: WEFT_COLLECTIVES is A at rank 0, B at rank 1, ...
 * --die: the last rank kills itself in the middle of barriers (0), broadcasts (1), reductions (2),
 * reductions to one rank (3) or exchanges (4); the others say what they are told, and wait
 * for their launcher to end them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, ranks, rounds = 30;
static long largest = 8 << 20;
static uint64_t seed = 1;
static unsigned long long least;

static void bad(const char *format, ...)
{
    va_list list;

    fprintf(stderr, "collectives: rank %d: ", rank);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* How many operations Weft has done here. */
static unsigned long long done(void)
{
    unsigned long long (*said)(void) = dlsym(RTLD_DEFAULT, "weft_mpi_done");
    return said ? said() : 0;
}

/* The same at all ranks as long as they draw together. */
static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

static unsigned char pattern(uint64_t what, long at)
{
    return (unsigned char)(what * 131 + at * 7 + at / 253);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* All ranks of this program share a clock: nobody may leave before all have entered. */
static void barrier(MPI_Comm comm)
{
    int size, me;
    double times[2], firsts, lasts;

    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &me);
    times[0] = now();
    MPI_Barrier(comm);
    times[1] = now();
    PMPI_Allreduce(&times[0], &lasts, 1, MPI_DOUBLE, MPI_MAX, comm);
    PMPI_Allreduce(&times[1], &firsts, 1, MPI_DOUBLE, MPI_MIN, comm);
    if (firsts < lasts)
        bad("a barrier of %d was left %g us early", size, (lasts - firsts) * 1e6);
}

static void bcast(MPI_Comm comm, int root, long bytes, uint64_t what)
{
    int me;
    unsigned char *data = malloc(bytes + 16);

    MPI_Comm_rank(comm, &me);
    memset(data, 0xee, bytes + 16);
    if (me == root)
        for (long i = 0; i < bytes; i++)
            data[i] = pattern(what, i);
    int code;
#if MPI_VERSION >= 4
    if (what % 2)
        code = MPI_Bcast_c(data, bytes, MPI_BYTE, root, comm);
    else
#endif
        code = MPI_Bcast(data, (int)bytes, MPI_BYTE, root, comm);
    if (code != MPI_SUCCESS)
        bad("a broadcast failed");
    for (long i = 0; i < bytes; i++)
        if (data[i] != pattern(what, i))
            bad("byte %ld of %ld from %d is wrong", i, bytes, root);
    for (int i = 0; i < 16; i++)
        if (data[bytes + i] != 0xee)
            bad("a broadcast of %ld has written behind its end", bytes);
    free(data);
}

static void some(MPI_Comm comm, uint64_t *state, int times, long most)
{
    int size;

    MPI_Comm_size(comm, &size);
    for (int i = 0; i < times; i++) {
        int root = (int)draw(state, size);
        long bytes = (long)draw(state, draw(state, 4) ? 3000 : most + 1);
        barrier(comm);
        bcast(comm, root, bytes, *state);
        if (draw(state, 3) == 0) {
            long mine = rank + 1, sum, wanted;
#if MPI_VERSION >= 4
            MPI_Allreduce_c(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm);
#else
            MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm);
#endif
            PMPI_Allreduce(&mine, &wanted, 1, MPI_LONG, MPI_SUM, comm);
            if (sum != wanted)
                bad("a sum is %ld instead of %ld", sum, wanted);
        }
    }
}

/* Halves, the same the other way round, copies, freed and made again. */
static void communicators(uint64_t *state)
{
    MPI_Comm half, back, copy, again;

    some(MPI_COMM_WORLD, state, rounds, largest / 16);
    some(MPI_COMM_SELF, state, 2, 1000);
    for (int round = 0; round < 4; round++) {
        uint64_t own = *state;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &back);
        MPI_Comm_dup(back, &copy);
        some(half, &own, 3, 50000);
        some(back, state, 3, 50000);
        some(copy, state, 3, 50000);
        MPI_Comm_free(&back);
        MPI_Comm_split(half, rank % 4 / 2, 0, &again);
        some(again, &own, 2, 50000);
        some(copy, state, 2, 50000);
        MPI_Comm_free(&again);
        MPI_Comm_free(&half);
        MPI_Comm_free(&copy);
    }
    /* Only some take part. */
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, rank, &half);
    if (half != MPI_COMM_NULL) {
        uint64_t own = *state;
        some(half, &own, 3, 50000);
        MPI_Comm_disconnect(&half);
    }
    MPI_Comm many[40];
    for (int i = 0; i < 40; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &many[i]);
        some(many[i], state, 1, 2000);
    }
    for (int i = 0; i < 40; i++) {
        some(many[39 - i], state, 1, 2000);
        MPI_Comm_free(&many[39 - i]);
    }
}

/* What comes of the members' ranks among all is known without asking anybody. */
static void members(MPI_Comm comm, int size, const int *all)
{
    enum { COUNT = 200 };
    long data[COUNT], sums[COUNT], sum = 0;
    int me;

    MPI_Comm_rank(comm, &me);
    if (all[me] != rank)
        bad("rank %d of a communicator is %d of all instead", me, all[me]);
    for (int root = 0; root < size; root++) {
        sum += all[root];
        for (int i = 0; i < COUNT; i++)
            data[i] = root == me ? rank * 1000 + i : -1;
        MPI_Bcast(data, COUNT, MPI_LONG, root, comm);
        for (int i = 0; i < COUNT; i++)
            if (data[i] != all[root] * 1000 + i)
                bad("element %d from %d is %ld", i, root, data[i]);
    }
    for (int i = 0; i < COUNT; i++)
        data[i] = rank * 7 + i;
    for (int count = 1; count <= COUNT; count += COUNT - 1) {
        MPI_Allreduce(data, sums, count, MPI_LONG, MPI_SUM, comm);
        for (int i = 0; i < count; i++)
            if (sums[i] != sum * 7 + (long)size * i)
                bad("sum %d of %d is %ld", i, count, sums[i]);
    }
}

static void of_origin(const char *origin, MPI_Comm *comm)
{
    unsigned long long before = done();
    uint64_t state = seed + 13;
    MPI_Group world, group;
    int size;

    if (*comm == MPI_COMM_NULL)
        return;
    MPI_Comm_size(*comm, &size);
    int *all = malloc(size * sizeof(int)), *places = malloc(size * sizeof(int));
    for (int i = 0; i < size; i++)
        places[i] = i;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(*comm, &group);
    MPI_Group_translate_ranks(group, size, places, world, all);
    barrier(*comm);
    members(*comm, size, all);
    some(*comm, &state, 2, 50000);
    if (least && size > 1 && done() == before)
        bad("Weft has done nothing on a communicator of %s", origin);
    MPI_Group_free(&group), MPI_Group_free(&world);
    free(all), free(places);
    MPI_Comm_free(comm);
}

/* Communicators that were neither split nor copied. */
static void origins(void)
{
    int dims[2] = {0, 0}, fewer = ranks > 1 ? ranks - 1 : 1, round[2] = {1, 0}, row[2] = {0, 1};
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, low = rank < ranks / 2;
    int *index = malloc(ranks * sizeof(int)), *edges = malloc(ranks * sizeof(int));
    int every[1][3] = {{ranks - 1, (ranks - 1) % 2, -2}}, weight = 1;
    MPI_Comm comm, part, half;
    MPI_Group world, some_of;

    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, round, 1, &comm);
    MPI_Cart_sub(comm, row, &part);
    of_origin("MPI_Cart_sub", &part);
    of_origin("MPI_Cart_create", &comm);
    /* One is left out. */
    MPI_Cart_create(MPI_COMM_WORLD, 1, &fewer, round, 0, &comm);
    of_origin("MPI_Cart_create", &comm);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, &weight, 1, &next, &weight,
                                   MPI_INFO_NULL, 1, &comm);
    of_origin("MPI_Dist_graph_create_adjacent", &comm);
    for (int i = 0; i < ranks; i++)
        index[i] = i + 1, edges[i] = (i + 1) % ranks;
    MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &comm);
    of_origin("MPI_Graph_create", &comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &comm);
    of_origin("MPI_Comm_split_type", &comm);
    /* Every other one, backwards; the rest does not call. */
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, every, &some_of);
    if (rank % 2 == (ranks - 1) % 2) {
        MPI_Comm_create_group(MPI_COMM_WORLD, some_of, 3, &comm);
        of_origin("MPI_Comm_create_group", &comm);
    }
    MPI_Group_free(&some_of), MPI_Group_free(&world);
    if (ranks > 1) {
        MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? ranks / 2 : 0, 9, &part);
        /* The upper half comes first. */
        MPI_Intercomm_merge(part, low, &comm);
        of_origin("MPI_Intercomm_merge", &comm);
        MPI_Comm_free(&part), MPI_Comm_free(&half);
    }
    free(index), free(edges);
}

static void sizes(uint64_t *state)
{
    for (long bytes = 0; bytes <= largest; bytes = bytes < 4 ? bytes + 1 : bytes * 2 + bytes / 3)
        bcast(MPI_COMM_WORLD, (int)draw(state, ranks), bytes, bytes);
    bcast(MPI_COMM_WORLD, 0, largest, 5);
    /* Many small ones in a row: the root runs ahead of the others. */
    for (int i = 0; i < 500; i++)
        bcast(MPI_COMM_WORLD, i / 100 % ranks, i * 13 % 1400, i);
}

/* The root names its elements by another datatype than the others. */
static void derived(void)
{
    enum { COUNT = 500 };
    MPI_Datatype every, turned, absolute, pair = MPI_DOUBLE_INT;
    int lengths[2] = {COUNT / 2, COUNT / 2}, places[2] = {COUNT / 2, 0};
    struct { double d; int i; } pairs[COUNT];
    int *wide = malloc(3 * COUNT * sizeof(int)), row[COUNT];
    MPI_Aint address;
    int one = COUNT;

    MPI_Type_vector(COUNT, 1, 3, MPI_INT, &every);
    MPI_Type_indexed(2, lengths, places, MPI_INT, &turned);
    MPI_Get_address(row, &address);
    MPI_Type_create_hindexed(1, &one, &address, MPI_INT, &absolute);
    MPI_Type_commit(&every);
    MPI_Type_commit(&turned);
    MPI_Type_commit(&absolute);
    for (int root = 0; root < ranks; root++) {
        for (int i = 0; i < 3 * COUNT; i++)
            wide[i] = rank == root ? i * 7 + root : -1;
        for (int i = 0; i < COUNT; i++)
            row[i] = -1;
        /* The root sends every third, the others have a row. */
        if (rank == root)
            MPI_Bcast(wide, 1, every, root, MPI_COMM_WORLD);
        else
            MPI_Bcast(row, COUNT, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT && rank != root; i++)
            if (row[i] != 3 * i * 7 + root)
                bad("element %d of a vector is %d", i, row[i]);
        /* The other way round, the halves exchanged, by absolute addresses. */
        for (int i = 0; i < COUNT; i++)
            row[i] = rank == root ? i * 5 + root : -1;
        if (rank == root)
            MPI_Bcast(row, 1, turned, root, MPI_COMM_WORLD);
        else
            MPI_Bcast(MPI_BOTTOM, 1, absolute, root, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT && rank != root; i++)
            if (row[i] != (i + COUNT / 2) % COUNT * 5 + root)
                bad("element %d of turned halves is %d", i, row[i]);
        for (int i = 0; i < 3 * COUNT; i++)
            wide[i] = -1;
        for (int i = 0; i < COUNT; i++)
            row[i] = i * 9 + root;
        if (rank == root)
            MPI_Bcast(row, COUNT, MPI_INT, root, MPI_COMM_WORLD);
        else
            MPI_Bcast(wide, 1, every, root, MPI_COMM_WORLD);
        for (int i = 0; i < 3 * COUNT && rank != root; i++)
            if (wide[i] != (i % 3 ? -1 : i / 3 * 9 + root))
                bad("place %d of a spread row is %d", i, wide[i]);
        memset(pairs, 0xee, sizeof pairs);
        for (int i = 0; i < COUNT && rank == root; i++)
            pairs[i].d = i * 0.5 + root, pairs[i].i = -i;
        MPI_Bcast(pairs, COUNT, pair, root, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++)
            if (pairs[i].d != i * 0.5 + root || pairs[i].i != -i)
                bad("pair %d is wrong", i);
    }
    MPI_Type_free(&every);
    MPI_Type_free(&turned);
    MPI_Type_free(&absolute);
    free(wide);
}

/* By the profiling name it is the library's own. */
static void profiling(void)
{
    unsigned long long before = done();
    int mine = rank, sum = -1, row[400];

    for (int i = 0; i < 400; i++)
        row[i] = rank == 0 ? i : -1;
    PMPI_Barrier(MPI_COMM_WORLD);
    PMPI_Bcast(row, 400, MPI_INT, 0, MPI_COMM_WORLD);
    PMPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (row[399] != 399 || sum != ranks * (ranks - 1) / 2)
        bad("by their profiling names the operations are wrong");
    if (done() != before)
        bad("by their profiling names the operations are Weft's");
}

#include "together.h"

static void user(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] = ((int *)in)[i] + 2 * ((int *)inout)[i];
}

static void reduced(int count, MPI_Datatype type, MPI_Op op, int size, int floating, int place)
{
    long bytes = (long)count * size;
    unsigned char *in = calloc(bytes + 16, 1), *out = calloc(bytes + 16, 1);
    unsigned char *wanted = calloc(bytes + 16, 1);
    int code;

    for (long i = 0; i < count; i++) {
        /* Small whole numbers: sums and products of them are exact in any order. */
        long value = (rank * 3 + i) % 4 + (i % 5 == 0);
        if (floating && size == 4)
            ((float *)in)[i] = (float)value;
        else if (floating && size == 8)
            ((double *)in)[i] = (double)value;
        else if (floating)
            ((long double *)in)[i] = (long double)value;
        else
            memcpy(in + i * size, &value, size);
    }
    PMPI_Allreduce(in, wanted, count, type, op, MPI_COMM_WORLD);
    if (place) {
        memcpy(out, in, bytes);
        code = MPI_Allreduce(MPI_IN_PLACE, out, count, type, op, MPI_COMM_WORLD);
    } else {
        code = MPI_Allreduce(in, out, count, type, op, MPI_COMM_WORLD);
    }
    if (code != MPI_SUCCESS)
        bad("a reduction failed");
    for (long i = 0; i < count; i++) {
        /* Of a long double not all bytes mean something. */
        int len = floating && size == 16 ? 10 : size;
        if (memcmp(out + i * size, wanted + i * size, len))
            bad("element %ld of %d of %d bytes is wrong", i, count, size);
    }
    for (int i = 0; i < 16; i++)
        if (out[bytes + i])
            bad("a reduction has written behind its end");
    free(in), free(out), free(wanted);
}

static void reductions(void)
{
    const struct { MPI_Datatype type; int size, floating; } types[] = {
        {MPI_CHAR, 1, 2}, {MPI_SIGNED_CHAR, 1, 0}, {MPI_UNSIGNED_CHAR, 1, 0}, {MPI_SHORT, 2, 0},
        {MPI_UNSIGNED_SHORT, 2, 0}, {MPI_INT, 4, 0}, {MPI_UNSIGNED, 4, 0},
        {MPI_LONG, sizeof(long), 0}, {MPI_UNSIGNED_LONG, sizeof(long), 0}, {MPI_LONG_LONG, 8, 0},
        {MPI_UNSIGNED_LONG_LONG, 8, 0}, {MPI_INT8_T, 1, 0}, {MPI_INT16_T, 2, 0},
        {MPI_INT32_T, 4, 0}, {MPI_INT64_T, 8, 0}, {MPI_UINT8_T, 1, 0}, {MPI_UINT16_T, 2, 0},
        {MPI_UINT32_T, 4, 0}, {MPI_UINT64_T, 8, 0}, {MPI_FLOAT, 4, 1}, {MPI_DOUBLE, 8, 1},
        {MPI_LONG_DOUBLE, sizeof(long double), 1}, {MPI_BYTE, 1, 3},
    };
    const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_LAND, MPI_LOR, MPI_LXOR,
                          MPI_BAND, MPI_BOR, MPI_BXOR};
    const int counts[] = {1, 3, 100, 5000, 40000};

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int o = 0; o < 10; o++) {
            int kind = types[t].floating;
            /* No operator for characters, arithmetic only for numbers, bits for bytes. */
            if (kind == 2 || (kind == 1 && o >= 4) || (kind == 3 && o < 7))
                continue;
            for (int c = 0; c < 5; c++)
                if (c < 3 || (o == 0 && (long)counts[c] * types[t].size <= largest))
                    reduced(counts[c], types[t].type, ops[o], types[t].size, kind == 1, c & 1);
        }
    reduced(0, MPI_INT, MPI_SUM, 4, 0, 0);
    struct { double d; int i; } mine = {rank % 3, rank}, most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    if (most.d != (ranks > 2 ? 2 : ranks - 1) || most.i != (ranks > 2 ? 2 : ranks - 1))
        bad("the greatest is %g at %d", most.d, most.i);
    MPI_Op own;
    int value = rank + 1, got, wanted;
    MPI_Op_create(user, 0, &own);
    MPI_Allreduce(&value, &got, 1, MPI_INT, own, MPI_COMM_WORLD);
    PMPI_Allreduce(&value, &wanted, 1, MPI_INT, own, MPI_COMM_WORLD);
    MPI_Op_free(&own);
    if (got != wanted)
        bad("a function of the program's gives %d instead of %d", got, wanted);
    /* Sums of numbers that do not fit are the same at all ranks, and every time. */
    double rough = 1.0 / (rank + 3), first = 0, next, low, high;
    for (int i = 0; i < 20; i++) {
        MPI_Allreduce(&rough, &next, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        PMPI_Allreduce(&next, &low, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        PMPI_Allreduce(&next, &high, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (low != high || (i && next != first))
            bad("a sum is not always the same: %.17g, %.17g, %.17g", low, high, first);
        first = next;
    }
}

/* Operations that the library has under way on the communicator on which Weft does others. */
static void under_way(void)
{
    MPI_Comm copy;
    MPI_Request request[3];
    uint64_t state = seed + 7;
    int row[3000], sum = -1;

    for (int round = 0; round < 3; round++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        for (int i = 0; i < 3000; i++)
            row[i] = rank == 0 ? i + round : -1;
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy, &request[0]);
        MPI_Ibcast(row, 3000, MPI_INT, 0, copy, &request[1]);
        /* The group is made now. */
        some(copy, &state, 3, 5000);
        MPI_Ibarrier(copy, &request[2]);
        some(copy, &state, 3, 5000);
        MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
        if (sum != ranks * (ranks - 1) / 2 || row[2999] != 2999 + round)
            bad("what was under way came to %d and %d", sum, row[2999]);
#if MPI_VERSION >= 4
        MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_MAX, copy, MPI_INFO_NULL, &request[0]);
        for (int i = 0; i < 3; i++) {
            sum = -1;
            MPI_Start(&request[0]);
            some(copy, &state, 2, 5000);
            MPI_Wait(&request[0], MPI_STATUS_IGNORE);
            if (sum != ranks - 1)
                bad("a persistent operation came to %d", sum);
        }
        MPI_Request_free(&request[0]);
#endif
        MPI_Comm_free(&copy);
    }
}

/* A communicator that does not come of that of all. */
static void sessions(void)
{
#if MPI_VERSION >= 4
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    uint64_t state = seed + 11;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "collectives", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    some(comm, &state, 5, 50000);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
#endif
}

/* Two groups of processes that are one communicator. */
static void between(void)
{
    MPI_Comm half, inter;
    int low, value, root;

    if (ranks < 2)
        return;
    low = rank < ranks / 2;
    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? ranks / 2 : 0, 9, &inter);
    for (int i = 0; i < 3; i++) {
        MPI_Barrier(inter);
        value = rank == 0 ? 4711 + i : -1;
        root = rank == 0 ? MPI_ROOT : low ? MPI_PROC_NULL : 0;
        MPI_Bcast(&value, 1, MPI_INT, root, inter);
        if (!low && value != 4711 + i)
            bad("from the other side came %d", value);
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* What others want of a rank that waits in a barrier: messages. */
static void messages(void)
{
    enum { MANY = 300000 };
    int *data = malloc(MANY * sizeof(int)), *into = malloc(MANY * sizeof(int)), next, before;
    MPI_Request request[2];
    MPI_Datatype every;

    next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Type_vector(MANY / 3, 1, 3, MPI_INT, &every);
    MPI_Type_commit(&every);
    for (int i = 0; i < MANY; i++)
        data[i] = rank * 7 + i, into[i] = -1;
    MPI_Irecv(into, 1, every, before, 5, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(data, 1, every, next, 5, MPI_COMM_WORLD, &request[1]);
    /* The last one waits for its message first, so that the others wait in the barrier. */
    if (rank == ranks - 1)
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    if (rank != ranks - 1)
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    for (int i = 0; i < MANY; i++)
        if (into[i] != (i % 3 || i / 3 >= MANY / 3 ? -1 : before * 7 + i))
            bad("place %d of a message is %d", i, into[i]);
    MPI_Type_free(&every);
    free(data), free(into);
}

/* And its memory. */
static void windows(void)
{
    MPI_Win window;
    long *base, one = 1;

    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    *base = 0;
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank == ranks - 1)
        for (int target = 0; target < ranks; target++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
            MPI_Accumulate(&one, 1, MPI_LONG, target, 0, 1, MPI_LONG, MPI_SUM, window);
            MPI_Win_unlock(target, window);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    if (*base != 1)
        bad("memory in a window is %ld", *base);
    MPI_Win_unlock(rank, window);
    MPI_Win_free(&window);
}

/* What was sent to a rank before a barrier is there after it: a library that looks for it once, and
 * makes progress only then, has to find it. */
static void order(void)
{
    MPI_Group all, other;
    MPI_Win window;
    int first = 0, here = 1;
    long *base;

    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (rank == 0)
        MPI_Group_excl(all, 1, &first, &other);
    else
        MPI_Group_incl(all, 1, &first, &other);
    for (int i = 0; i < 100; i++) {
        if (rank == 0)
            MPI_Win_start(other, 0, window);
        else
            MPI_Win_post(other, 0, window);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Win_complete(window);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank != 0)
            MPI_Win_test(window, &here);
        if (!here)
            bad("barrier %d has overtaken the end of an access", i);
    }
    MPI_Group_free(&other), MPI_Group_free(&all);
    MPI_Win_free(&window);
}

enum { THREADS = 4 };
static MPI_Comm own[THREADS];

static void *thread(void *number)
{
    int me = (int)(intptr_t)number;
    uint64_t state = seed + 100 + me;

    some(own[me], &state, rounds, 100000);
    return NULL;
}

static void threads(void)
{
    pthread_t all[THREADS];

    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&all[i], NULL, thread, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&own[i]);
}

static int once(int where, int i)
{
    double value = rank, sum, all[64];
    char row[3000] = {0};

    if (where == 1)
        return MPI_Bcast(row, sizeof row, MPI_BYTE, i % ranks, MPI_COMM_WORLD);
    if (where == 2)
        return MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (where == 3)
        return MPI_Reduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, i % (ranks - 1), MPI_COMM_WORLD);
    if (where == 4)
        return MPI_Allgather(&value, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    return MPI_Barrier(MPI_COMM_WORLD);
}

/* The last rank dies; what the others are told goes to standard output. */
static void die(int where)
{
    char text[MPI_MAX_ERROR_STRING];
    int len, code = MPI_SUCCESS;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 20; i++)
        once(where, i);
    if (rank == ranks - 1)
        kill(getpid(), SIGKILL);
    for (int i = 0; i < 1000 && code == MPI_SUCCESS; i++)
        code = once(where, i);
    if (code == MPI_SUCCESS)
        bad("nothing has failed without rank %d", ranks - 1);
    MPI_Error_string(code, text, &len);
    printf("@%d told: %s\n", rank, text);
    fflush(stdout);
    /* Who waits for this one only shall hear of the dead one from its launcher, not of this one. */
    sleep(20);
    _exit(3);
}

/* Before the first collective operation: that is when Weft reads it. */
static void choose(const char *choices)
{
    char *all = strdup(choices), *rest = all, *choice = NULL;

    for (int i = 0; i <= rank; i++)
        choice = strsep(&rest, "/");
    if (!choice)
        bad("there is no choice for this rank in %s", choices);
    setenv("WEFT_COLLECTIVES", choice, 1);
    free(all);
}

int main(int argc, char **argv)
{
    const char *choices = NULL;
    int level, wants_threads = 0, wants_windows = 1, in_order = 0, dies = -1;

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp(argv[i], "--threads"))
            wants_threads = 1;
        else if (!strcmp(argv[i], "--no-windows"))
            wants_windows = 0;
        else if (!strcmp(argv[i], "--in-order"))
            in_order = 1;
        else if (!strcmp(argv[i], "--die"))
            dies = atoi(value), i++;
        else if (!strcmp(argv[i], "--choices"))
            choices = value, i++;
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(value, NULL, 10), i++;
        else if (!strcmp(argv[i], "--rounds"))
            rounds = atoi(value), i++;
        else if (!strcmp(argv[i], "--largest"))
            largest = atol(value), i++;
        else if (!strcmp(argv[i], "--weft"))
            least = strtoull(value, NULL, 10), i++;
    }
    MPI_Init_thread(&argc, &argv, wants_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (choices)
        choose(choices);
    if (dies >= 0)
        die(dies);
    uint64_t state = seed;
    communicators(&state);
    origins();
    sizes(&state);
    derived();
    profiling();
    reductions();
    together();
    under_way();
    sessions();
    between();
    messages();
    if (wants_windows)
        windows();
    if (in_order)
        order();
    if (wants_threads && level == MPI_THREAD_MULTIPLE)
        threads();
    if (done() < least)
        bad("Weft has done %llu operations only", done());
    MPI_Finalize();
    if (rank == 0)
        printf("collectives: good\n");
    return 0;
}
