/*
 * Counter: one rank's memory is read, written and counted up by all others.
 *
 *     mpicc -O2 counter.c -o counter -lm
 *     weft mpirun -n 2 --lab nodes=2 -- ./counter weft 100 fetch-wait:small fetch-busy:small
 *
 * get, put, acc (MPI_Accumulate) and fetch (MPI_Fetch_and_op; large: MPI_Get_accumulate) on the
 * memory of rank 0, each with its flush, in one epoch that is open throughout. Rank 0 waits in a
 * receive, or (`-busy`) computes, and makes an MPI call every 5 ms. The time is that of one
 * operation and its flush; for put also that of reading its last word back. (A flush is over when
 * the target has what was put. Over libfabric's tcp MPICH's is over before: the memory of a target
 * that computes was seen to change 12 to 20 ms after it.) Small: 8 bytes, large: 64 KiB.
 * What has been got must be what is there, numbers that were fetched must all differ, and in the
 * end the memory must hold what was put and the sum of what was added.
 */
#include "programs.h"

#define OPERATIONS_MAX 10
#define BUSY_US 5000

enum { GET, PUT, ACC, FETCH, BUSY };
static int what, busy, words;
/* Rank 0's memory: what is read and added to, then a place for each rank to write to. */
static long *shared, *mine, *got, *ones, first[OPERATIONS_MAX];
static MPI_Win window;

static long content(int of_rank, int word)
{
    return of_rank * 1000003L + word;
}

static void start(void)
{
    for (int w = 0; w < words; w++) {
        mine[w] = content(rank, w);
        ones[w] = 1;
    }
    if (rank != 0)
        return;
    MPI_Win_sync(window);
    memset(shared, 0, (size_t)words * (1 + ranks) * sizeof *shared);
    for (int w = 0; w < words; w++)
        shared[w] = what == GET ? content(0, w) : 0;
    MPI_Win_sync(window);
}

static void operate(void)
{
    MPI_Aint place = (MPI_Aint)words * (1 + rank);

    if (what == GET)
        MPI_Get(got, words, MPI_LONG, 0, 0, words, MPI_LONG, window);
    else if (what == PUT)
        MPI_Put(mine, words, MPI_LONG, 0, place, words, MPI_LONG, window);
    else if (what == ACC)
        MPI_Accumulate(ones, words, MPI_LONG, 0, 0, words, MPI_LONG, MPI_SUM, window);
    else if (words == 1)
        MPI_Fetch_and_op(ones, got, MPI_LONG, 0, 0, MPI_SUM, window);
    else
        MPI_Get_accumulate(ones, words, MPI_LONG, got, words, MPI_LONG, 0, 0, words, MPI_LONG,
                           MPI_SUM, window);
    MPI_Win_flush(0, window);
    if (what == PUT) {
        MPI_Get(got, 1, MPI_LONG, 0, place + words - 1, 1, MPI_LONG, window);
        MPI_Win_flush(0, window);
        if (got[0] != mine[words - 1])
            wrong("a flush is over, and %ld is not there yet", mine[words - 1]);
    }
}

/* Until all others are done. */
static void be_there(void)
{
    for (int done = 1; done < ranks; done++) {
        int found = !busy;
        while (!found) {
            compute(BUSY_US);
            IN_MPI(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
        }
        IN_MPI(MPI_Recv(NULL, 0, MPI_LONG, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

static void block(void)
{
    if (rank == 0) {
        be_there();
        return;
    }
    for (int i = 0; i < steps; i++) {
        double before_ns = now_ns();
        IN_MPI(operate());
        sample((now_ns() - before_ns) / 1000);
        first[i] = got[0];
    }
    IN_MPI(MPI_Send(NULL, 0, MPI_LONG, 0, 1, MPI_COMM_WORLD));
}

/* What rank 0's memory must hold after a block. */
static void check_memory(void)
{
    long count = (long)steps * (ranks - 1);

    MPI_Win_sync(window);
    SPOIL(shared[what == PUT ? 3 * words - 1 : words - 1]);
    for (int w = 0; w < words; w++) {
        long right = what == GET ? content(0, w) : what == PUT ? 0 : count;
        if (shared[w] != right)
            wrong("word %d is %ld, not %ld", w, shared[w], right);
        for (int r = 1; r < ranks && what == PUT; r++)
            if (shared[(1 + r) * words + w] != content(r, w))
                wrong("word %d that rank %d has put is %ld", w, r, shared[(1 + r) * words + w]);
    }
}

/* The numbers fetched by all ranks are 0, 1, 2 and so on, each once. */
static void check_fetched(void)
{
    long all[ranks * OPERATIONS_MAX];
    int count = steps * (ranks - 1);
    char seen[count + 1];

    MPI_Gather(first, steps, MPI_LONG, all, steps, MPI_LONG, 0, MPI_COMM_WORLD);
    memset(seen, 0, sizeof seen);
    for (int i = steps; rank == 0 && i < steps * ranks; i++) {
        if (all[i] < 0 || all[i] >= count || seen[all[i]]++)
            wrong("rank %d has fetched %ld", i / steps, all[i]);
    }
}

static void check(void)
{
    if (rank == 0)
        check_memory();
    for (int w = 0; w < words && rank != 0 && what == GET; w++)
        if (got[w] != content(0, w))
            wrong("word %d was got as %ld", w, got[w]);
    /* Each word counts by itself, and has counted this rank's own operations before the last. */
    for (int w = 0; w < words && rank != 0 && what == FETCH; w++)
        if (got[w] < steps - 1 || got[w] >= (long)steps * (ranks - 1))
            wrong("word %d was fetched as %ld", w, got[w]);
    if (what == FETCH)
        check_fetched();
    memset(got, 0, words * sizeof *got);
}

static void run(const struct word *word)
{
    what = word->mode % BUSY;
    busy = word->mode >= BUSY;
    words = word->large ? 8192 : 1;
    if (ranks < 2)
        wrong("there is nobody but rank 0");
    mine = memory(words * sizeof *mine);
    got = memory(words * sizeof *got);
    ones = memory(words * sizeof *ones);
    size_t bytes = (size_t)words * (1 + ranks) * sizeof *shared;
    MPI_Win_allocate(rank ? 0 : bytes, sizeof *shared, MPI_INFO_NULL, MPI_COMM_WORLD, &shared,
                     &window);
    MPI_Win_lock_all(0, window);
    struct plan plan = {.bytes = words * sizeof *shared, .steps = busy ? 4 : OPERATIONS_MAX,
                        .own_samples = 1, .start = start, .block = block, .check = check};
    measure(word, &plan);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(mine);
    free(got);
    free(ones);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"get-wait", "put-wait", "acc-wait", "fetch-wait",
                                        "get-busy", "put-busy", "acc-busy", "fetch-busy", NULL};
    static const struct kernel own = {"counter", modes, two_sizes, NULL, run};
    return program(argc, argv, &own);
}
