/*
 * Windows that MPI allocates: operations on their memory by ranks of one node and by others, with
 * any datatype, never between each other, and not before a lock or a post allows them.
 *
 *     windows [LEAST]     LEAST: how many operations Weft must have done in this rank
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMES 200
#define EXPECT(what, ...)                                                                          \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("windows: rank %d, line %d: ", rank, __LINE__);                                 \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
            fflush(stdout);                                                                        \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static int rank, ranks;

static MPI_Win of(MPI_Aint bytes, int unit, void *base)
{
    MPI_Win window;

    MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, &window);
    memset(*(void **)base, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    return window;
}

/* What a window says of itself, and that ranks may have parts of different lengths and steps. */
static void facts(void)
{
    int unit = rank % 2 ? 8 : 1, found, *flavor, *step;
    MPI_Aint *bytes, length = rank == 0 ? 0 : 64 * rank;
    char *base, *told;
    MPI_Win window = of(length, unit, &base);

    MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
    EXPECT(found && *flavor == MPI_WIN_FLAVOR_ALLOCATE, "it is of another flavor");
    MPI_Win_get_attr(window, MPI_WIN_BASE, &told, &found);
    EXPECT(found && (told == base || length == 0), "it begins elsewhere");
    MPI_Win_get_attr(window, MPI_WIN_SIZE, &bytes, &found);
    EXPECT(found && *bytes == length, "it has %ld bytes", (long)*bytes);
    MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, &step, &found);
    EXPECT(found && *step == unit, "its step is %d", *step);
    MPI_Win_lock_all(0, window);
    for (int to = 1; to < ranks; to++) {
        /* The last 8 bytes but `rank` times 8, in each part's own steps. */
        long mine = rank * 100 + to, got = -1;
        MPI_Aint place = 64 * to - 8 * (1 + rank % 8);
        place /= to % 2 ? 8 : 1;
        MPI_Put(&mine, 1, MPI_LONG, to, place, 1, MPI_LONG, window);
        MPI_Win_flush(to, window);
        MPI_Get(&got, 8, MPI_BYTE, to, place, 8, MPI_BYTE, window);
        MPI_Win_flush_local_all(window);
        EXPECT(got == mine || ranks > 8, "%ld came back as %ld", mine, got);
    }
    MPI_Put(&found, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    EXPECT(window == MPI_WIN_NULL, "a window is there after it is gone");
}

/* One after the other: numbers, every other number, pairs; by requests; with results. */
static void sums(void)
{
    long *base, one[4] = {1, 1, 1, 1}, before[4], request_result;
    MPI_Win window = of(64 * sizeof(long), sizeof(long), &base);
    MPI_Datatype every_other;
    MPI_Request request;

    MPI_Type_vector(4, 1, 2, MPI_LONG, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Win_lock_all(0, window);
    for (int t = 0; t < TIMES; t++) {
        int to = (rank + t) % ranks;
#if MPI_VERSION >= 4
        MPI_Accumulate_c(one, 4, MPI_LONG, to, 0, 4, MPI_LONG, MPI_SUM, window);
#else
        MPI_Accumulate(one, 4, MPI_LONG, to, 0, 4, MPI_LONG, MPI_SUM, window);
#endif
        /* Words 0, 2, 4, 6. */
        MPI_Accumulate(one, 4, MPI_LONG, to, 0, 1, every_other, MPI_SUM, window);
        MPI_Get_accumulate(one, 4, MPI_LONG, before, 4, MPI_LONG, to, 0, 1, every_other, MPI_SUM,
                           window);
        MPI_Win_flush(to, window);
        for (int i = 0; i < 4; i++)
            EXPECT(before[i] >= 0 && before[i] <= 3L * ranks * TIMES, "%ld came", before[i]);
        MPI_Fetch_and_op(one, before, MPI_LONG, to, 8, MPI_SUM, window);
        MPI_Raccumulate(one, 1, MPI_LONG, to, 9, 1, MPI_LONG, MPI_SUM, window, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Rget_accumulate(one, 1, MPI_LONG, &request_result, 1, MPI_LONG, to, 9, 1, MPI_LONG,
                            MPI_SUM, window, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        EXPECT(request_result >= 1, "%ld before the second", request_result);
        /* Nobody takes another's turn: a lock of its own. */
        long free_word = 0, taken = rank + 1, was;
        do {
            MPI_Compare_and_swap(&taken, &free_word, &was, MPI_LONG, to, 10, window);
            MPI_Win_flush(to, window);
        } while (was != 0);
        long value;
        MPI_Get(&value, 1, MPI_LONG, to, 11, 1, MPI_LONG, window);
        MPI_Win_flush(to, window);
        value++;
        MPI_Put(&value, 1, MPI_LONG, to, 11, 1, MPI_LONG, window);
        MPI_Win_flush(to, window);
        MPI_Fetch_and_op(&free_word, &was, MPI_LONG, to, 10, MPI_REPLACE, window);
        MPI_Win_flush(to, window);
        EXPECT(was == taken, "rank %ld has taken the turn, too", was - 1);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    long right[12] = {3, 1, 3, 1, 2, 0, 2, 0, 1, 2, 0, 1};
    for (int i = 0; i < 12; i++)
        EXPECT(base[i] == right[i] * TIMES, "word %d is %ld, not %ld", i, base[i],
               right[i] * TIMES);
    MPI_Win_unlock(rank, window);
    MPI_Type_free(&every_other);
    MPI_Win_free(&window);
}

/* The largest number and whose it is; what is read without change; what is written over. */
static void pairs(void)
{
    struct pair { double value; int of; } *base, mine = {rank, rank}, got = {-1, -1};
    MPI_Win window = of(4 * sizeof *base, sizeof *base, &base);

    MPI_Win_lock_all(0, window);
    MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, 0, 1, 1, MPI_DOUBLE_INT, MPI_MAXLOC, window);
    MPI_Win_flush_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Get_accumulate(NULL, 0, MPI_DOUBLE_INT, &got, 1, MPI_DOUBLE_INT, 0, 1, 1, MPI_DOUBLE_INT,
                       MPI_NO_OP, window);
    MPI_Win_flush(0, window);
    EXPECT(got.value == ranks - 1 && got.of == ranks - 1, "the largest is %g of %d", got.value,
           got.of);
    mine.value = -5;
    MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, rank, 2, 1, MPI_DOUBLE_INT, MPI_REPLACE, window);
    MPI_Win_flush(rank, window);
    MPI_Win_sync(window);
    EXPECT(base[2].value == -5 && base[2].of == rank, "%g of %d is written", base[2].value,
           base[2].of);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

/* A lock that one has keeps all others out, however they come. */
static void alone(void)
{
    volatile long *base;
    long pair[2], next;
    MPI_Win window = of(2 * sizeof(long), sizeof(long), &base);

    for (int t = 0; t < TIMES / 4; t++) {
        if (t % 3 == 0) {
            /* At home, by plain stores. */
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
            base[0]++;
            for (int i = 0; i < 2000; i++)
                __asm__ volatile("");
            base[1]++;
            MPI_Win_unlock(rank, window);
            continue;
        }
        int to = (rank + t) % ranks, get = t % 3 == 1;
        MPI_Win_lock(get ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, to, 0, window);
        for (int again = 0; again < 3; again++) {
            MPI_Get(pair, 2, MPI_LONG, to, 0, 2, MPI_LONG, window);
            MPI_Win_flush(to, window);
            EXPECT(pair[0] == pair[1], "%ld and %ld", pair[0], pair[1]);
        }
        for (int word = 0; word < 2 && !get; word++) {
            next = pair[word] + 1;
            MPI_Put(&next, 1, MPI_LONG, to, word, 1, MPI_LONG, window);
            MPI_Win_flush_local(to, window);
        }
        MPI_Win_unlock(to, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    long own = 0, sum = 0, right = 0;
    for (int t = 0; t < TIMES / 4; t++)
        own += t % 3 != 1;
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    long have = base[0];
    MPI_Win_unlock(rank, window);
    MPI_Allreduce(&own, &right, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&have, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(sum == right, "%ld of %ld have counted", sum, right);
    MPI_Win_free(&window);
}

/* Between fences, and between post and wait: nothing is there before the target has said so. */
static void told(void)
{
    long *base, mine = rank + 1;
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI_Win window = of(2 * sizeof(long), sizeof(long), &base);
    MPI_Group all, origin, target;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &left, &origin);
    MPI_Group_incl(all, 1, &right, &target);
    for (int t = 0; t < 20; t++) {
        MPI_Win_fence(0, window);
        MPI_Accumulate(&mine, 1, MPI_LONG, right, 0, 1, MPI_LONG, MPI_SUM, window);
        MPI_Win_fence(0, window);
        EXPECT(base[0] == (t + 1) * (left + 1), "%ld between fences", base[0]);
        /* Odd ranks start before their neighbours have posted. */
        if (rank % 2 == 0) {
            usleep(300);
            EXPECT(base[1] == t * (left + 1), "%ld before a post", base[1]);
        }
        MPI_Win_post(origin, 0, window);
        MPI_Win_start(target, 0, window);
        MPI_Accumulate(&mine, 1, MPI_LONG, right, 1, 1, MPI_LONG, MPI_SUM, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        EXPECT(base[1] == (t + 1) * (left + 1), "%ld after a wait", base[1]);
    }
    MPI_Group_free(&origin);
    MPI_Group_free(&target);
    MPI_Group_free(&all);
    MPI_Win_free(&window);
}

/* What is left of the memory of windows: mapped, or open. */
static int left(void)
{
    char line[512], path[300];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    DIR *list = opendir("/proc/self/fd");
    struct dirent *entry;

    while (fgets(line, sizeof line, maps))
        count += strstr(line, "weft-window") != NULL;
    while ((entry = readdir(list))) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, line, sizeof line - 1);
        line[length > 0 ? length : 0] = 0;
        count += strstr(line, "weft-window") != NULL;
    }
    closedir(list);
    fclose(maps);
    return count;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    facts();
    sums();
    pairs();
    alone();
    told();
    facts();
    EXPECT(left() == 0, "%d pieces of windows are left", left());

    unsigned long long (*done)(void) = dlsym(RTLD_DEFAULT, "weft_mpi_done");
    unsigned long long least = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, have = done ? done() : 0;
    EXPECT(have >= least, "Weft has done %llu operations", have);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("windows: good\n");
    MPI_Finalize();
    return 0;
}
