/*
 * What the kernels of programs in this directory have in common: the command line, a processor for
 * each rank, the clock, blocks of steps that are timed and checked, and one line of JSON a figure.
 *
 *     PROGRAM NAME MS [WORD...]
 *     PROGRAM list                  prints the words that there are
 *
 * NAME is printed as the device; MS milliseconds, or a little more, go to each figure. A word is
 * `small` or `large`, after `MODE:` where a program has modes; none: both, in the first mode.
 * `spoil` makes the results of the words after it wrong, to see that this is noticed.
 *
 * A block is a number of steps from a defined start, and is checked at its end. Two short blocks
 * warm up; then blocks of one length go on until MS milliseconds were spent in them, at least two.
 * `time_us` is the time of a step, of the rank that took longest; `mpi_us` what a step spends in
 * MPI, the mean of all ranks, and `mpi_share` that as a share of the step.
 */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A program: its name, its modes (the first is the default; "" where there is but one) and sizes,
 * all ended by NULL, and what to do for a word. */
struct word;
struct kernel {
    const char *name;
    const char *const *modes, *const *sizes;
    /* Whether a size other than small and large means something; NULL: none does. */
    int (*knows)(const char *size);
    /* Gets ready, calls `measure`, tidies up. */
    void (*run)(const struct word *word);
};

/* What is to be measured: a mode by its place in the list, and a size. */
struct word {
    const char *text, *size;
    int mode, large;
    double ms;
};

/* How: a block of so many steps (`few`, 2 unless given, to warm up and where they take long), with
 * messages of so many bytes. `start` and `check` are not timed. With `own_samples` the times are
 * those that the program gives to `sample`. */
struct plan {
    int bytes, steps, few, own_samples;
    void (*start)(void), (*block)(void), (*check)(void);
    /* Where there is more to tell: fields of the output, each after a comma. All ranks are asked,
     * and rank 0 prints its own. */
    const char *(*more)(void);
};

static const char *const one_mode[] = {"", NULL}, *const two_sizes[] = {"small", "large", NULL};
static const struct kernel *kernel;
static const char *device;
static int rank, ranks;
/* The steps of this block. */
static int steps;
/* 1 where results are to be made wrong. */
static int spoilt;
/* Time in MPI since the block began. */
static double mpi_ns;

#define SAMPLES_MAX (1 << 18)
/* So many steps, where each has a time of its own, unless they take longer than this: so the
 * slowest one of a hundred is no single one. */
#define TAIL_MIN 500
#define TAIL_MAX_NS 1e9
/* Blocks that would take longer are made short. */
#define BLOCK_MAX_NS 2e8
static double *samples;
static int sampled;

static inline double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Makes an MPI call and counts its time. */
#define IN_MPI(call)                                                                               \
    do {                                                                                           \
        double before_ns = now_ns();                                                               \
        call;                                                                                      \
        mpi_ns += now_ns() - before_ns;                                                            \
    } while (0)

/* To be done to one result before it is checked. */
#define SPOIL(value) ((value) += spoilt)

/* Computes for so long. */
static inline void compute(double us)
{
    for (double end = now_ns() + us * 1000; now_ns() < end;)
        ;
}

static inline void sample(double us)
{
    if (sampled < SAMPLES_MAX)
        samples[sampled++] = us;
}

/* Ends the job: a result is not what it must be. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void wrong(const char *format, ...)
{
    va_list values;

    va_start(values, format);
    fprintf(stderr, "%s: the result is wrong on rank %d: ", kernel->name, rank);
    vfprintf(stderr, format, values);
    fprintf(stderr, "\n");
    va_end(values);
    /* A launcher that is told of the abort first may end before it has passed this on. */
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Zeroed memory, on a page of its own. */
static inline void *memory(size_t bytes)
{
    size_t whole = (bytes / 4096 + 1) * 4096;
    void *all = aligned_alloc(4096, whole);

    if (!all) {
        fprintf(stderr, "%s: no memory\n", kernel->name);
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
    return memset(all, 0, whole);
}

/* The other rank of this one's pair: first half and second half. An odd rank out has none. */
static inline int partner(void)
{
    int half = ranks / 2;
    return rank < half ? rank + half : rank < 2 * half ? rank - half : MPI_PROC_NULL;
}

static inline int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The samples of all ranks, at rank 0. */
static inline void gather_samples(void)
{
    int counts[ranks], places[ranks], all = 0;

    MPI_Gather(&sampled, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int r = 0; rank == 0 && r < ranks; all += counts[r++])
        places[r] = all;
    double *together = memory((rank ? 0 : all) * sizeof *together);
    MPI_Gatherv(samples, sampled, MPI_DOUBLE, together, counts, places, MPI_DOUBLE, 0,
                MPI_COMM_WORLD);
    if (rank == 0) {
        free(samples);
        samples = together;
        sampled = all;
    } else {
        free(together);
    }
}

static inline void report(const struct word *word, const struct plan *plan, double step_us,
                          double mpi_us)
{
    double all = 0, total = 0;
    const char *more = plan->more ? plan->more() : "";

    MPI_Reduce(&mpi_us, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (plan->own_samples)
        gather_samples();
    if (rank != 0)
        return;
    if (sampled == 0)
        wrong("no time was taken");
    qsort(samples, sampled, sizeof *samples, ascending);
    for (int i = 0; i < sampled; i++)
        total += samples[i];
    printf("{\"bench\":\"%s\",\"device\":\"%s\",\"ranks\":%d,\"bytes\":%d,\"mode\":\"%s\","
           "\"time_us\":{\"min\":%.4f,\"p50\":%.4f,\"p99\":%.4f,\"mean\":%.4f},"
           "\"mpi_us\":%.4f,\"mpi_share\":%.4f%s,\"checked\":true}\n",
           kernel->name, device, ranks, plan->bytes, word->text, samples[0], samples[sampled / 2],
           samples[(long)sampled * 99 / 100], total / sampled, all / ranks, all / ranks / step_us,
           more);
    fflush(stdout);
}

/* One block; gives the time that it took the rank that took longest, the same at all ranks. */
static inline double one_block(const struct plan *plan)
{
    double from, own, longest;

    plan->start();
    MPI_Barrier(MPI_COMM_WORLD);
    mpi_ns = 0;
    from = now_ns();
    plan->block();
    own = now_ns() - from;
    MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    plan->check();
    return longest;
}

/* Blocks until the time is over, and their figure. */
static inline void measure(const struct word *word, const struct plan *plan)
{
    double spent_ns = 0, in_mpi_ns = 0, few_ns;
    int blocks;

    free(samples);
    samples = memory(SAMPLES_MAX * sizeof *samples);
    steps = plan->few ? plan->few : 2;
    /* The first makes connections, the second shows how long a step takes. */
    one_block(plan);
    few_ns = one_block(plan);
    if (few_ns / steps * plan->steps < BLOCK_MAX_NS)
        steps = plan->steps;
    sampled = 0;
    for (blocks = 0; blocks < 2 || spent_ns < word->ms * 1e6 ||
                     (plan->own_samples && blocks * steps < TAIL_MIN && spent_ns < TAIL_MAX_NS);
         blocks++) {
        double block_ns = one_block(plan);
        spent_ns += block_ns;
        in_mpi_ns += mpi_ns;
        if (!plan->own_samples)
            sample(block_ns / steps / 1000);
    }
    double all_steps = (double)blocks * steps;
    report(word, plan, spent_ns / all_steps / 1000, in_mpi_ns / all_steps / 1000);
}

/* Every rank on a processor of its own, chosen before MPI starts threads. */
static inline void pin(void)
{
    const char *names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"};
    cpu_set_t usable, mine;
    int i, left;

    for (i = 0; i < 3 && !getenv(names[i]); i++)
        ;
    if (i == 3 || sched_getaffinity(0, sizeof usable, &usable))
        return;
    left = atoi(getenv(names[i])) % CPU_COUNT(&usable);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &usable) && left-- == 0) {
            CPU_ZERO(&mine);
            CPU_SET(cpu, &mine);
            sched_setaffinity(0, sizeof mine, &mine);
            return;
        }
    }
}

/* What a word says; 0 if nothing. */
static inline int understand(const char *text, struct word *word)
{
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;

    word->text = text;
    word->size = colon ? colon + 1 : text;
    word->large = !strcmp(word->size, "large");
    for (word->mode = 0; colon && kernel->modes[word->mode]; word->mode++)
        if (strlen(kernel->modes[word->mode]) == length &&
            !strncmp(kernel->modes[word->mode], text, length))
            break;
    return kernel->modes[word->mode] &&
           (word->large || !strcmp(word->size, "small") ||
            (kernel->knows && kernel->knows(word->size)));
}

static inline int list(void)
{
    for (int m = 0; kernel->modes[m]; m++)
        for (int s = 0; kernel->sizes[s]; s++)
            printf("%s%s%s\n", kernel->modes[m], *kernel->modes[m] ? ":" : "", kernel->sizes[s]);
    return 0;
}

/* The `main` of a program. */
static inline int program(int argc, char **argv, const struct kernel *own)
{
    static char *none[] = {"small", "large", NULL};
    char **words = argc > 3 ? argv + 3 : none;
    struct word word;

    kernel = own;
    if (argc == 2 && !strcmp(argv[1], "list"))
        return list();
    int usable = argc >= 3;
    for (int i = 0; words[i]; i++)
        usable = usable && (!strcmp(words[i], "spoil") || understand(words[i], &word));
    if (!usable) {
        fprintf(stderr, "usage: %s NAME MS [WORD...], or: %s list\n", argv[0], argv[0]);
        return 2;
    }
    device = argv[1];
    word.ms = atof(argv[2]);
    pin();
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (; *words; words++) {
        if (!strcmp(*words, "spoil"))
            spoilt = 1;
        else if (understand(*words, &word))
            kernel->run(&word);
    }
    free(samples);
    MPI_Finalize();
    return 0;
}

#endif
