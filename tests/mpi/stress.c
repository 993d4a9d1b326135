/* A stress program for MPI libraries: random messages of all kinds, every byte checked.
 *
 *     mpicc stress.c stress_messages.c stress_shared.c -o stress -pthread
 *     mpiexec -n 4 ./stress [--seed N] [--rounds N] [--seconds S] [--largest BYTES]
 *                           [--only PHASE,...] [--not PHASE,...] [--threads] [--limit S]
 *
 * A run is a seed: the same seed with the same number of ranks does the same again. What fails is
 * told with the seed, the round and the phase; a round that takes longer than the limit counts as
 * hung and is told, too.
 */
#define _GNU_SOURCE
#include "stress.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int rank, ranks;
size_t largest = 8u << 20, budget = 24u << 20;
int threads_work;

static unsigned long long seed;
static long current_round = -1;
static const char *current_phase = "the start";

static const struct {
    const char *name;
    phase *run;
} phases[] = {
    {"messages", messages},   {"probes", probes},           {"cancels", cancels},
    {"persistent", persistent}, {"partitioned", partitioned}, {"shapes", shapes},
    {"both_ways", both_ways}, {"flood", flood},             {"windows", windows},
    {"locks", locks},         {"counters", counters},       {"collectives", collectives},
    {"splits", splits},       {"threads", threads},
};
#define PHASES (sizeof phases / sizeof *phases)

uint64_t draw(uint64_t *state)
{
    /* splitmix64, by Steele, Lea and Flood. */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t below(uint64_t *state, uint64_t limit)
{
    return draw(state) % (limit ? limit : 1);
}

size_t any_size(uint64_t *state, size_t most)
{
    uint64_t bits = 1, drawn = draw(state);

    while (bits < 63 && most >> bits)
        bits++;
    /* Every eighth is empty or the greatest: the ends are where mistakes are. */
    if (drawn % 16 == 0)
        return drawn & 16 ? 0 : most;
    size_t size = below(state, (uint64_t)1 << (1 + below(state, bits)));
    return size > most ? most : size;
}

void *room(size_t bytes)
{
    void *at = malloc(bytes ? bytes : 1);
    if (!at)
        fail("no memory for %zu bytes", bytes);
    return at;
}

void fill(void *at, size_t bytes, uint64_t key)
{
    unsigned char *to = at;
    uint64_t word = key;

    for (size_t i = 0; i < bytes; i += 8) {
        word = word * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
        memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

void check(const void *at, size_t bytes, uint64_t key, const char *what)
{
    const unsigned char *from = at;
    uint64_t word = key;

    for (size_t i = 0; i < bytes; i += 8) {
        size_t part = bytes - i < 8 ? bytes - i : 8;
        word = word * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
        if (memcmp(from + i, &word, part)) {
            uint64_t there = 0;
            memcpy(&there, from + i, part);
            fail("%s: byte %zu of %zu is wrong: %016llx, not %016llx", what, i, bytes,
                 (unsigned long long)there, (unsigned long long)word);
        }
    }
}

void fail(const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "stress: rank %d of %d, round %ld, %s: %s\nstress: again with --seed %llu\n",
            rank, ranks, current_round, current_phase, text, seed);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 3);
    abort();
}

/* Only what is allowed in a signal handler. */
static void hung(int signal)
{
    char text[256], number[24];
    int at = sizeof number;
    long round = current_round < 0 ? 0 : current_round;
    unsigned long long shown[] = {(unsigned long long)rank, (unsigned long long)round, seed};
    const char *labels[] = {"stress: hung: rank ", ", round ", ", again with --seed "};

    (void)signal;
    text[0] = 0;
    for (int i = 0; i < 3; i++) {
        unsigned long long value = shown[i];
        number[at = sizeof number - 1] = 0;
        do
            number[--at] = (char)('0' + value % 10);
        while (value /= 10);
        strcat(strcat(text, labels[i]), number + at);
    }
    strcat(strcat(strcat(text, ": "), current_phase), "\n");
    if (write(2, text, strlen(text)) < 0)
        _exit(5);
    _exit(4);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whether a comma-separated list has a name in it. */
static int listed(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, name, length) && (at[length] == ',' || !at[length]))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *only = NULL, *without = NULL;
    long rounds = 0, done[PHASES] = {0};
    double seconds = 0, start = now_s();
    int limit_s = 120, provided, wanted = MPI_THREAD_SINGLE;

    seed = (unsigned long long)time(NULL);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--threads")) {
            wanted = MPI_THREAD_MULTIPLE;
            continue;
        }
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(value, NULL, 0);
        else if (!strcmp(argv[i], "--rounds"))
            rounds = atol(value);
        else if (!strcmp(argv[i], "--seconds"))
            seconds = atof(value);
        else if (!strcmp(argv[i], "--largest"))
            largest = strtoull(value, NULL, 0);
        else if (!strcmp(argv[i], "--only"))
            only = value;
        else if (!strcmp(argv[i], "--not"))
            without = value;
        else if (!strcmp(argv[i], "--limit"))
            limit_s = atoi(value);
        else {
            fprintf(stderr, "stress: what is %s?\n", argv[i]);
            return 2;
        }
        i++;
    }
    if (!rounds && seconds <= 0)
        rounds = 100;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    threads_work = provided == MPI_THREAD_MULTIPLE;
    signal(SIGALRM, hung);
    MPI_Bcast(&seed, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD);
    uint64_t state = seed;
    for (long round = 0;; round++) {
        int go = rounds ? round < rounds : now_s() - start < seconds;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!go)
            break;
        size_t which = below(&state, PHASES);
        uint64_t plan = draw(&state);
        const char *name = phases[which].name;
        if ((only && !listed(only, name)) || (without && listed(without, name)))
            continue;
        current_round = round;
        current_phase = name;
        alarm((unsigned)limit_s);
        phases[which].run(plan, MPI_COMM_WORLD);
        done[which]++;
    }
    current_phase = "the end";
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    alarm(0);
    if (rank == 0) {
        printf("stress: good: seed %llu, %d ranks, %.1f s:", seed, ranks, now_s() - start);
        for (size_t i = 0; i < PHASES; i++)
            if (done[i])
                printf(" %s %ld", phases[i].name, done[i]);
        printf("\n");
    }
    return 0;
}
