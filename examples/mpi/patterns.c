/*
 * Patterns of communication between MPI ranks, each by itself, measured the way `weft bench`
 * measures Weft. Writes one JSON object per figure to standard output. `weft compare` compiles and
 * runs it; by hand:
 *
 *   mpicc -O2 patterns.c -o patterns && mpiexec -n 2 ./patterns NAME MS lat 8 4096 bw 1048576
 *
 * Arguments: the name to write as the device, milliseconds per figure, then the names of patterns
 * (in `benches` below), each followed by message sizes in bytes. Sizes mean nothing to barrier and
 * fadd. Those between two ranks are done by all pairs at once: the first rank and the last, the
 * second and the last but one, and so on. What arrives is checked once for each size.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW 32
#define SAMPLES_MIN 3
#define SAMPLES_MAX 2000000
/* Shorter times are taken several at once, so that reading the clock does not count. */
#define SAMPLE_NS 2000.0

#define ALL MPI_COMM_WORLD
#define NO_STATUS MPI_STATUS_IGNORE

static int rank, ranks, partner, leads;
static const char *device;
static double *samples;
/* What goes out and what comes in: so many bytes for each rank. */
static char *out, *in;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every rank on a processor of its own, chosen before MPI starts threads. */
static void pin(void)
{
    const char *names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"};
    cpu_set_t usable, mine;
    int i, cpu, left = 0;

    for (i = 0; i < 3 && !getenv(names[i]); i++)
        ;
    if (i == 3 || sched_getaffinity(0, sizeof usable, &usable))
        return;
    left = atoi(getenv(names[i])) % CPU_COUNT(&usable);
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &usable) && left-- == 0) {
            CPU_ZERO(&mine);
            CPU_SET(cpu, &mine);
            sched_setaffinity(0, sizeof mine, &mine);
            return;
        }
    }
}

static char *pages(size_t bytes)
{
    char *memory = aligned_alloc(4096, (bytes / 4096 + 1) * 4096);

    if (!memory)
        MPI_Abort(ALL, 1);
    memset(memory, 0, bytes);
    return memory;
}

/* The bytes that `who` sends, and whether they are there. */
static char byte_of(int who, int at)
{
    return (char)(who * 37 + at * 7 + 1);
}

static void fill(char *to, int bytes, int who)
{
    for (int i = 0; i < bytes; i++)
        to[i] = byte_of(who, i);
}

static int holds(const char *there, int bytes, int who)
{
    for (int i = 0; i < bytes; i++)
        if (there[i] != byte_of(who, i))
            return 0;
    return 1;
}

/* Two ranks. */

static void there_and_back(int bytes, long times)
{
    for (long i = 0; i < times && partner != rank; i++) {
        if (leads) {
            MPI_Send(out, bytes, MPI_BYTE, partner, 1, ALL);
            MPI_Recv(out, bytes, MPI_BYTE, partner, 1, ALL, NO_STATUS);
        } else {
            MPI_Recv(out, bytes, MPI_BYTE, partner, 1, ALL, NO_STATUS);
            MPI_Send(out, bytes, MPI_BYTE, partner, 1, ALL);
        }
    }
}

static void receive_probed(int bytes)
{
    MPI_Status found;
    int came = 0;

    MPI_Probe(MPI_ANY_SOURCE, 5, ALL, &found);
    MPI_Get_count(&found, MPI_BYTE, &came);
    MPI_Recv(out, came < bytes ? came : bytes, MPI_BYTE, found.MPI_SOURCE, 5, ALL, NO_STATUS);
}

static void probed(int bytes, long times)
{
    for (long i = 0; i < times && partner != rank; i++) {
        if (leads)
            MPI_Ssend(out, bytes, MPI_BYTE, partner, 5, ALL);
        receive_probed(bytes);
        if (!leads)
            MPI_Ssend(out, bytes, MPI_BYTE, partner, 5, ALL);
    }
}

static void both_ways(int bytes, long times)
{
    for (long i = 0; i < times; i++)
        MPI_Sendrecv(out, bytes, MPI_BYTE, partner, 6, in, bytes, MPI_BYTE, partner, 6, ALL,
                     NO_STATUS);
}

static void windows(int bytes, long times)
{
    MPI_Request all[WINDOW];
    char back = 0;

    for (long i = 0; i < times && partner != rank; i++) {
        for (int w = 0; w < WINDOW; w++)
            if (leads)
                MPI_Isend(out, bytes, MPI_BYTE, partner, 2, ALL, &all[w]);
            else
                MPI_Irecv(in, bytes, MPI_BYTE, partner, 2, ALL, &all[w]);
        MPI_Waitall(WINDOW, all, MPI_STATUSES_IGNORE);
        if (leads)
            MPI_Recv(&back, 1, MPI_BYTE, partner, 3, ALL, NO_STATUS);
        else
            MPI_Send(&back, 1, MPI_BYTE, partner, 3, ALL);
    }
}

static void windows_both_ways(int bytes, long times)
{
    MPI_Request all[2 * WINDOW];

    for (long i = 0; i < times; i++) {
        for (int w = 0; w < WINDOW; w++)
            MPI_Irecv(in, bytes, MPI_BYTE, partner, 2, ALL, &all[w]);
        for (int w = WINDOW; w < 2 * WINDOW; w++)
            MPI_Isend(out, bytes, MPI_BYTE, partner, 2, ALL, &all[w]);
        MPI_Waitall(2 * WINDOW, all, MPI_STATUSES_IGNORE);
    }
}

static int led_came(int bytes)
{
    return holds(out, bytes, leads ? rank : partner);
}

static int partners_came(int bytes)
{
    return holds(in, bytes, partner);
}

static int window_came(int bytes)
{
    return leads || partner == rank || partners_came(bytes);
}

/* Neighbours on a ring of all ranks. */

static int left(void)
{
    return (rank + ranks - 1) % ranks;
}

static int right(void)
{
    return (rank + 1) % ranks;
}

static void neighbours(int bytes, long times)
{
    MPI_Request all[4];

    for (long i = 0; i < times; i++) {
        MPI_Irecv(in, bytes, MPI_BYTE, left(), 7, ALL, &all[0]);
        MPI_Irecv(in + bytes, bytes, MPI_BYTE, right(), 8, ALL, &all[1]);
        MPI_Isend(out, bytes, MPI_BYTE, right(), 7, ALL, &all[2]);
        MPI_Isend(out, bytes, MPI_BYTE, left(), 8, ALL, &all[3]);
        MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
    }
}

/* All ranks. */

static void barriers(int bytes, long times)
{
    (void)bytes;
    for (long i = 0; i < times; i++)
        MPI_Barrier(ALL);
}

/*
 * From each rank in turn, so that none runs ahead of the others. One time is a whole turn: a rank
 * that sends may be done before the others, and waits for them in one of the next broadcasts.
 */
static void bcasts(int bytes, long times)
{
    for (long i = 0; i < times; i++)
        for (int root = 0; root < ranks; root++)
            MPI_Bcast(out, bytes, MPI_BYTE, root, ALL);
}

/* Several broadcasts, then all have come: a root may be ahead of its receivers. */
#define BROADCASTS 8
static void broadcasts(int bytes, long times)
{
    for (long i = 0; i < times; i++) {
        for (int b = 0; b < BROADCASTS; b++)
            MPI_Bcast(out, bytes, MPI_BYTE, 0, ALL);
        MPI_Barrier(ALL);
    }
}

static int first_ones_came(int bytes)
{
    return holds(out, bytes, 0);
}

/* Numbers that are added: whole ones, so that their sum is exact in any order. */
static int numbers(int bytes)
{
    return bytes < 8 ? 1 : bytes / 8;
}

static double number_of(int who, int at)
{
    return who + 1 + at % 5;
}

/* In turn, as broadcasts. */
static void reduces(int bytes, long times)
{
    for (long i = 0; i < times; i++)
        for (int root = 0; root < ranks; root++)
            MPI_Reduce(out, in, numbers(bytes), MPI_DOUBLE, MPI_SUM, root, ALL);
}

static void allreduces(int bytes, long times)
{
    for (long i = 0; i < times; i++)
        MPI_Allreduce(out, in, numbers(bytes), MPI_DOUBLE, MPI_SUM, ALL);
}

static int sum_came(int bytes)
{
    const double *sum = (const double *)in;

    for (int i = 0; i < numbers(bytes); i++)
        if (sum[i] != ranks * (ranks + 1) / 2.0 + ranks * (i % 5))
            return 0;
    return 1;
}

static void allgathers(int bytes, long times)
{
    for (long i = 0; i < times; i++)
        MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, ALL);
}

static void alltoalls(int bytes, long times)
{
    for (long i = 0; i < times; i++)
        MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, ALL);
}

/* Whole messages to ranks at an even distance, halves to the others. */
static int uneven(int bytes, int peer)
{
    return (peer + rank) % 2 ? (bytes + 1) / 2 : bytes;
}

static void alltoallvs(int bytes, long times)
{
    int counts[ranks], places[ranks];

    for (int peer = 0; peer < ranks; peer++) {
        counts[peer] = uneven(bytes, peer);
        places[peer] = peer * bytes;
    }
    for (long i = 0; i < times; i++)
        MPI_Alltoallv(out, counts, places, MPI_BYTE, in, counts, places, MPI_BYTE, ALL);
}

static int gathered(int bytes)
{
    for (int peer = 0; peer < ranks; peer++)
        if (!holds(in + (size_t)peer * bytes, bytes, peer))
            return 0;
    return 1;
}

/* `out` is the same for each peer but for where in it that peer's piece begins. */
static int piece_came(int bytes, int count, int peer)
{
    for (int i = 0; i < count; i++)
        if (in[(size_t)peer * bytes + i] != byte_of(peer, rank * bytes + i))
            return 0;
    return 1;
}

static int pieces_came(int bytes)
{
    for (int peer = 0; peer < ranks; peer++)
        if (!piece_came(bytes, bytes, peer))
            return 0;
    return 1;
}

static int uneven_pieces_came(int bytes)
{
    for (int peer = 0; peer < ranks; peer++)
        if (!piece_came(bytes, uneven(bytes, peer), peer))
            return 0;
    return 1;
}

/* A ring as MPI knows it: the neighbours are those of `neighbours`. */
static MPI_Comm circle = MPI_COMM_NULL;

static void neighbour_alltoalls(int bytes, long times)
{
    int around = 1;

    if (circle == MPI_COMM_NULL)
        MPI_Cart_create(ALL, 1, &ranks, &around, 0, &circle);
    for (long i = 0; i < times; i++)
        MPI_Neighbor_alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, circle);
}

static int neighbours_came(int bytes)
{
    return holds(in, bytes, left()) && holds(in + bytes, bytes, right());
}

/*
 * The neighbour on the left sends its second piece to its right one. Of two ranks each is both of
 * the other's neighbours, and which piece is which libraries see differently.
 */
static int neighbours_pieces_came(int bytes)
{
    int straight = 1, crossed = ranks == 2;

    for (int i = 0; i < bytes; i++) {
        straight &= in[i] == byte_of(left(), bytes + i) && in[bytes + i] == byte_of(right(), i);
        crossed &= in[i] == byte_of(left(), i) && in[bytes + i] == byte_of(right(), bytes + i);
    }
    return straight || crossed;
}

/*
 * Memory that the others reach, made when it is first wanted. It is the program's own: windows that
 * the library allocates it can have in memory that ranks of a node share, and send nothing.
 */
#define MEMORY_BYTES (4 << 20)
/* One whose epoch is open throughout, and one that is locked for each access. */
static MPI_Win opened = MPI_WIN_NULL, locked = MPI_WIN_NULL;
static char *opened_memory, *locked_memory;

static void make(MPI_Win *window, char **memory)
{
    if (*window != MPI_WIN_NULL)
        return;
    *memory = pages(MEMORY_BYTES);
    MPI_Win_create(*memory, MEMORY_BYTES, 1, MPI_INFO_NULL, ALL, window);
    if (window == &opened)
        MPI_Win_lock_all(0, opened);
    MPI_Barrier(ALL);
}

static void free_memory(void)
{
    if (opened != MPI_WIN_NULL) {
        MPI_Win_unlock_all(opened);
        MPI_Win_free(&opened);
    }
    if (locked != MPI_WIN_NULL)
        MPI_Win_free(&locked);
    free(opened_memory);
    free(locked_memory);
}

/*
 * So many operations on the last rank's memory, each complete before the next begins, while the
 * others wait in a receive: passive targets that make progress. (MPICH over tcp ends a flush when
 * the data has left, not when the target has it; an unlock it ends when the target has the data.)
 */
#define ACCESSES 32
static void wait_for_rank_0(void)
{
    char done = 0;

    if (rank == 0)
        for (int peer = 1; peer < ranks; peer++)
            MPI_Send(&done, 1, MPI_BYTE, peer, 4, ALL);
    else
        MPI_Recv(&done, 1, MPI_BYTE, 0, 4, ALL, NO_STATUS);
}

static void puts_flushed(int bytes, long times)
{
    make(&opened, &opened_memory);
    for (long i = 0; rank == 0 && i < times * ACCESSES; i++) {
        MPI_Put(out, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, opened);
        MPI_Win_flush(partner, opened);
    }
    wait_for_rank_0();
}

static void puts_locked(int bytes, long times)
{
    make(&locked, &locked_memory);
    for (long i = 0; rank == 0 && i < times * ACCESSES; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, partner, 0, locked);
        MPI_Put(out, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, locked);
        MPI_Win_unlock(partner, locked);
    }
    wait_for_rank_0();
}

/* Every rank writes into its partner's memory, and both are done before either goes on. */
static void puts_both_ways(int bytes, long times)
{
    char done = 0, came;

    make(&opened, &opened_memory);
    for (long i = 0; i < times; i++) {
        for (int access = 0; access < ACCESSES; access++) {
            MPI_Put(out, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, opened);
            MPI_Win_flush(partner, opened);
        }
        MPI_Sendrecv(&done, 1, MPI_BYTE, partner, 9, &came, 1, MPI_BYTE, partner, 9, ALL,
                     NO_STATUS);
    }
}

static void gets(int bytes, long times)
{
    make(&opened, &opened_memory);
    for (long i = 0; rank == 0 && i < times * ACCESSES; i++) {
        MPI_Get(in, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, opened);
        MPI_Win_flush(partner, opened);
    }
    wait_for_rank_0();
}

static void accumulates(int bytes, long times)
{
    make(&opened, &opened_memory);
    for (long i = 0; rank == 0 && i < times * ACCESSES; i++) {
        MPI_Accumulate(out, numbers(bytes), MPI_DOUBLE, partner, 0, numbers(bytes), MPI_DOUBLE,
                       MPI_SUM, opened);
        MPI_Win_flush(partner, opened);
    }
    wait_for_rank_0();
}

static long fetched;

static void fetches(int bytes, long times)
{
    (void)bytes;
    long one = 1;

    make(&opened, &opened_memory);
    for (long i = 0; rank == 0 && i < times * ACCESSES; i++) {
        MPI_Fetch_and_op(&one, &fetched, MPI_LONG, partner, 0, MPI_SUM, opened);
        MPI_Win_flush(partner, opened);
    }
    wait_for_rank_0();
}

/* Reads the memory of the partner that was written. */
static void read_back(int bytes)
{
    MPI_Win_flush_all(opened);
    MPI_Get(in, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, opened);
    MPI_Win_flush(partner, opened);
}

static int put_came(int bytes)
{
    if (rank == 0)
        read_back(bytes);
    return rank != 0 || holds(in, bytes, 0);
}

static int both_puts_came(int bytes)
{
    read_back(bytes);
    return holds(in, bytes, rank);
}

static int locked_put_came(int bytes)
{
    if (rank != 0)
        return 1;
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, locked);
    MPI_Get(in, bytes, MPI_BYTE, partner, 0, bytes, MPI_BYTE, locked);
    MPI_Win_unlock(partner, locked);
    return holds(in, bytes, 0);
}

static int got(int bytes)
{
    puts_flushed(bytes, 1);
    memset(in, 0, bytes);
    gets(bytes, 1);
    return rank != 0 || holds(in, bytes, 0);
}

/* What is added is what the partner has more of afterwards. */
static int added(int bytes)
{
    int count = numbers(bytes), good = 1;
    double *after = (double *)in;

    memset(out, 0, count * sizeof *after);
    puts_flushed(count * sizeof *after, 1);
    for (int i = 0; i < count; i++)
        ((double *)out)[i] = number_of(rank, i);
    accumulates(bytes, 1);
    if (rank != 0)
        return 1;
    read_back(count * sizeof *after);
    for (int i = 0; i < count; i++)
        good &= after[i] == ACCESSES * number_of(0, i);
    return good;
}

static int counted(int bytes)
{
    long before;

    fetches(bytes, 1);
    before = fetched;
    fetches(bytes, 1);
    return rank != 0 || fetched == before + ACCESSES;
}

/* What a pattern's figure is: a time, in us, or a bandwidth, in MB/s. */
enum unit { RTT, TIME, BANDWIDTH };
static const char *const units[] = {"rtt_us", "time_us", "bandwidth_mb_s"};

static const struct bench {
    const char *name;
    enum unit unit;
    void (*once)(int bytes, long times);
    /* Whether what was sent has come, after it was done once; nothing where it sends no data. */
    int (*came)(int bytes);
    /* How many of what is measured are done at once; 0: as many as there are ranks. */
    int each;
} benches[] = {
    {"lat", RTT, there_and_back, led_came, 1},
    {"ssend", RTT, probed, led_came, 1},
    {"sendrecv", TIME, both_ways, partners_came, 1},
    {"neighbours", TIME, neighbours, neighbours_came, 1},
    {"bw", BANDWIDTH, windows, window_came, WINDOW},
    {"bibw", BANDWIDTH, windows_both_ways, partners_came, 2 * WINDOW},
    {"barrier", TIME, barriers, NULL, 1},
    {"bcast", TIME, bcasts, first_ones_came, 0},
    {"cast", BANDWIDTH, broadcasts, first_ones_came, BROADCASTS},
    {"reduce", TIME, reduces, sum_came, 0},
    {"allreduce", TIME, allreduces, sum_came, 1},
    {"allgather", TIME, allgathers, gathered, 1},
    {"alltoall", TIME, alltoalls, pieces_came, 1},
    {"alltoallv", TIME, alltoallvs, uneven_pieces_came, 1},
    {"neighbour_alltoall", TIME, neighbour_alltoalls, neighbours_pieces_came, 1},
    {"put", TIME, puts_flushed, put_came, ACCESSES},
    {"lput", TIME, puts_locked, locked_put_came, ACCESSES},
    {"biput", TIME, puts_both_ways, both_puts_came, ACCESSES},
    {"get", TIME, gets, got, ACCESSES},
    {"acc", TIME, accumulates, added, ACCESSES},
    {"fadd", TIME, fetches, counted, ACCESSES},
};
#define BENCHES (sizeof benches / sizeof *benches)

/* How many times take about `ns`, agreed on by all ranks. */
static long calibrate(const struct bench *bench, int bytes, double ns)
{
    long times = 2;
    for (;;) {
        MPI_Barrier(ALL);
        double start = now_ns();
        bench->once(bytes, times);
        double took = now_ns() - start;
        MPI_Bcast(&took, 1, MPI_DOUBLE, 0, ALL);
        if (took > ns / 20) {
            long fit = (long)(times * ns / took);
            return fit < 1 ? 1 : fit;
        }
        times *= took < ns / 400 ? 10 : 2;
    }
}

/* Does it once with what the others can tell from all else; a wrong byte anywhere ends the job. */
static void check(const struct bench *bench, int bytes)
{
    if (bench->came == sum_came)
        for (int i = 0; i < numbers(bytes); i++)
            ((double *)out)[i] = number_of(rank, i);
    bench->once(bytes, 1);
    if (!bench->came || bench->came(bytes))
        return;
    fprintf(stderr, "rank %d: %s of %d bytes: wrong data\n", rank, bench->name, bytes);
    MPI_Abort(ALL, 1);
}

static void tell(const struct bench *bench, int bytes, long count, double total)
{
    int each = bench->each ? bench->each : ranks;

    qsort(samples, count, sizeof *samples, ascending);
    printf("{\"bench\":\"%s\",\"device\":\"%s\",\"ranks\":%d,\"bytes\":%d,\"%s\":", bench->name,
           device, ranks, bytes, units[bench->unit]);
    if (bench->unit == BANDWIDTH)
        printf("%.3f}\n", (double)bytes * each / (total / count));
    else
        printf("{\"min\":%.4f,\"p50\":%.4f,\"p99\":%.4f,\"mean\":%.4f}}\n", samples[0] / each,
               samples[count / 2] / each, samples[count * 99 / 100] / each, total / count / each);
    fflush(stdout);
}

static void measure(const struct bench *bench, int bytes, double ms)
{
    size_t memory = (size_t)(bytes < 8 ? 8 : bytes) * (ranks < 2 ? 2 : ranks);
    double total = 0, start;

    out = pages(memory);
    in = pages(memory);
    fill(out, memory, rank);
    check(bench, bytes);
    long times = calibrate(bench, bytes, ms * 1e6);
    long batch = (long)(SAMPLE_NS / (ms * 1e6 / times));
    batch = batch < 1 ? 1 : batch;
    long rounds = times / batch < SAMPLES_MIN ? SAMPLES_MIN : times / batch;
    if (rounds > SAMPLES_MAX)
        rounds = SAMPLES_MAX;
    MPI_Barrier(ALL);
    start = now_ns();
    for (long i = 0; i < rounds; i++) {
        bench->once(bytes, batch);
        double now = now_ns();
        samples[i] = (now - start) / batch / 1000;
        total += samples[i];
        start = now;
    }
    if (rank == 0)
        tell(bench, bytes, rounds, total);
    free(out);
    free(in);
}

static const struct bench *named(const char *name)
{
    for (size_t b = 0; b < BENCHES; b++)
        if (!strcmp(name, benches[b].name))
            return &benches[b];
    return NULL;
}

int main(int argc, char **argv)
{
    const struct bench *bench = NULL;

    if (argc < 4) {
        fprintf(stderr, "usage: %s NAME MS BENCH SIZE...: see the top of this file\n", argv[0]);
        return 2;
    }
    pin();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(ALL, &rank);
    MPI_Comm_size(ALL, &ranks);
    partner = ranks - 1 - rank;
    leads = rank < partner;
    device = argv[1];
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    if (!samples)
        MPI_Abort(ALL, 1);
    memset(samples, 0, SAMPLES_MAX * sizeof *samples);
    for (int i = 3; i < argc; i++) {
        if (named(argv[i]))
            bench = named(argv[i]);
        else if (bench)
            measure(bench, atoi(argv[i]), atof(argv[2]));
    }
    free_memory();
    if (circle != MPI_COMM_NULL)
        MPI_Comm_free(&circle);
    free(samples);
    MPI_Finalize();
    return 0;
}
