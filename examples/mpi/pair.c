/*
 * Two MPI ranks measured the way `weft bench` measures Weft: messages there and back, windows of 32
 * messages, barriers, broadcasts. Writes one JSON object per figure to standard output. `weft
 * compare` compiles and runs it; by hand:
 *
 *   mpicc -O2 pair.c -o pair && mpiexec -n 2 ./pair NAME MS lat 8 4096 bw 1048576
 *
 * Arguments: the name to write as the device, milliseconds per figure, then the names of benchmarks
 * (lat, bw, barrier, bcast, cast, allreduce, put, lput, fadd), each followed by message sizes
 * in bytes. Sizes mean nothing to barrier and fadd.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW 32
#define SAMPLES_MAX 2000000
/* Shorter times are taken several at once, so that reading the clock does not count. */
#define SAMPLE_NS 2000.0

static int rank, ranks;
static const char *device;
static double *samples;

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

static void there_and_back(char *buf, int bytes, long times)
{
    for (long i = 0; i < times; i++) {
        if (rank == 0) {
            MPI_Send(buf, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buf, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(buf, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buf, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
}

static void windows(char *buf, int bytes, long times)
{
    MPI_Request all[WINDOW];
    char back = 0;

    for (long i = 0; i < times; i++) {
        if (rank == 0) {
            for (int w = 0; w < WINDOW; w++)
                MPI_Isend(buf, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &all[w]);
            MPI_Waitall(WINDOW, all, MPI_STATUSES_IGNORE);
            MPI_Recv(&back, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            for (int w = 0; w < WINDOW; w++)
                MPI_Irecv(buf, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &all[w]);
            MPI_Waitall(WINDOW, all, MPI_STATUSES_IGNORE);
            MPI_Send(&back, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        }
    }
}

static void barriers(char *buf, int bytes, long times)
{
    (void)buf, (void)bytes;
    for (long i = 0; i < times; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

/*
 * From each rank in turn, so that none runs ahead of the others. One time is a whole turn: a rank
 * that sends may be done before the others, and waits for them in one of the next broadcasts.
 */
static void bcasts(char *buf, int bytes, long times)
{
    for (long i = 0; i < times; i++)
        for (int root = 0; root < ranks; root++)
            MPI_Bcast(buf, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

/* Several broadcasts, then all have come: a root may be ahead of its receivers. */
#define BROADCASTS 8
static void broadcasts(char *buf, int bytes, long times)
{
    for (long i = 0; i < times; i++) {
        for (int b = 0; b < BROADCASTS; b++)
            MPI_Bcast(buf, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void allreduces(char *buf, int bytes, long times)
{
    (void)buf;
    double in[64] = {0}, out[64];
    int count = bytes / 8 < 1 ? 1 : bytes / 8 > 64 ? 64 : bytes / 8;

    for (long i = 0; i < times; i++)
        MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Memory that the others reach, made when it is first wanted. */
#define WINDOW_BYTES (1 << 20)
/* One whose epoch is open throughout, and one that is locked for each access. */
static MPI_Win opened = MPI_WIN_NULL, locked = MPI_WIN_NULL;

static void make(MPI_Win *window)
{
    char *base;

    if (*window != MPI_WIN_NULL)
        return;
    MPI_Win_allocate(WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, window);
    memset(base, 0, WINDOW_BYTES);
    if (window == &opened)
        MPI_Win_lock_all(0, opened);
    MPI_Barrier(MPI_COMM_WORLD);
}

/*
 * So many operations on their memory, each complete before the next begins, while the others wait
 * in a receive: passive targets that make progress. (MPICH over tcp ends a flush when the data has
 * left, not when the target has it; an unlock it ends when the target has the data.)
 */
#define ACCESSES 32
static void wait_for_rank_0(void)
{
    char done = 0;

    if (rank == 0)
        for (int peer = 1; peer < ranks; peer++)
            MPI_Send(&done, 1, MPI_BYTE, peer, 4, MPI_COMM_WORLD);
    else
        MPI_Recv(&done, 1, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void puts_flushed(char *buf, int bytes, long times)
{
    make(&opened);
    for (long i = 0; rank == 0 && i < times * ACCESSES; i++) {
        MPI_Put(buf, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, opened);
        MPI_Win_flush(1, opened);
    }
    wait_for_rank_0();
}

static void puts_locked(char *buf, int bytes, long times)
{
    make(&locked);
    for (long i = 0; rank == 0 && i < times * ACCESSES; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, locked);
        MPI_Put(buf, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, locked);
        MPI_Win_unlock(1, locked);
    }
    wait_for_rank_0();
}

static void fetches(char *buf, int bytes, long times)
{
    (void)buf, (void)bytes;
    long one = 1, before = 0;

    make(&opened);
    for (long i = 0; rank == 0 && i < times * ACCESSES; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 1, 8, MPI_SUM, opened);
        MPI_Win_flush(1, opened);
    }
    wait_for_rank_0();
}

typedef void (*work)(char *, int, long);

static const struct bench {
    const char *name, *unit;
    work once;
} benches[] = {
    {"lat", "rtt_us", there_and_back}, {"bw", "bandwidth_mb_s", windows},
    {"barrier", "time_us", barriers},  {"allreduce", "time_us", allreduces},
    {"cast", "bandwidth_mb_s", broadcasts},
    {"put", "time_us", puts_flushed},  {"lput", "time_us", puts_locked},
    {"fadd", "time_us", fetches},      {"bcast", "time_us", bcasts},
};
#define BENCHES (sizeof benches / sizeof *benches)

/* How many times take about `ns`, agreed on by all ranks. */
static long calibrate(work once, char *buf, int bytes, double ns)
{
    long times = 2;
    for (;;) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns();
        once(buf, bytes, times);
        double took = now_ns() - start;
        MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (took > ns / 20) {
            long fit = (long)(times * ns / took);
            return fit < 1 ? 1 : fit;
        }
        times *= took < ns / 400 ? 10 : 2;
    }
}

static void measure(const struct bench *bench, int bytes, double ms)
{
    work once = bench->once;
    char *buf = aligned_alloc(4096, ((size_t)bytes / 4096 + 1) * 4096);
    double total = 0, start;

    if (!buf)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buf, rank + 1, bytes);
    long times = calibrate(once, buf, bytes, ms * 1e6);
    long batch = (long)(SAMPLE_NS / (ms * 1e6 / times));
    batch = batch < 1 ? 1 : batch;
    long rounds = times / batch < 1 ? 1 : times / batch;
    if (rounds > SAMPLES_MAX)
        rounds = SAMPLES_MAX;
    MPI_Barrier(MPI_COMM_WORLD);
    start = now_ns();
    for (long i = 0; i < rounds; i++) {
        once(buf, bytes, batch);
        double now = now_ns();
        samples[i] = (now - start) / batch / 1000;
        total += samples[i];
        start = now;
    }
    free(buf);
    if (rank != 0)
        return;
    qsort(samples, rounds, sizeof *samples, ascending);
    printf("{\"bench\":\"%s\",\"device\":\"%s\",\"ranks\":%d,\"bytes\":%d,", bench->name, device,
           ranks, bytes);
    int at_once = once == windows ? WINDOW : once == broadcasts ? BROADCASTS : 0;
    int accesses = once == puts_flushed || once == puts_locked || once == fetches;
    int in_turn = once == bcasts ? ranks : accesses ? ACCESSES : 1;
    if (at_once)
        printf("\"bandwidth_mb_s\":%.3f}\n", (double)bytes * at_once / (total / rounds));
    else
        printf("\"%s\":{\"min\":%.4f,\"p50\":%.4f,\"p99\":%.4f,\"mean\":%.4f}}\n",
               bench->unit, samples[0] / in_turn, samples[rounds / 2] / in_turn,
               samples[rounds * 99 / 100] / in_turn, total / rounds / in_turn);
    fflush(stdout);
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
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    device = argv[1];
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    if (!samples)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(samples, 0, SAMPLES_MAX * sizeof *samples);
    for (int i = 3; i < argc; i++) {
        const struct bench *named = NULL;
        for (size_t b = 0; b < BENCHES && !named; b++)
            if (!strcmp(argv[i], benches[b].name))
                named = &benches[b];
        if (named)
            bench = named;
        else if (bench)
            measure(bench, atoi(argv[i]), atof(argv[2]));
    }
    if (opened != MPI_WIN_NULL) {
        MPI_Win_unlock_all(opened);
        MPI_Win_free(&opened);
    }
    if (locked != MPI_WIN_NULL)
        MPI_Win_free(&locked);
    free(samples);
    MPI_Finalize();
    return 0;
}
