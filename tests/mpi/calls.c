/* A known number of calls of MPI, for tests of what counts them: mpiexec -n 3 ./calls. Says whether
 * it is counted, what a library of its user's has counted (user_sendrecvs), and that all was right.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ALL MPI_COMM_WORLD
#define NO_STATUS MPI_STATUS_IGNORE
#define RANKS_MAX 16
#define THREADS 4
#define TESTS 1000

static int rank, ranks, right, left;

static void wrong(const char *what)
{
    fprintf(stderr, "calls: rank %d: %s\n", rank, what);
    MPI_Abort(ALL, 3);
}

/* 40 of MPI_Sendrecv, of 12 arguments; 30 each of MPI_Isend and MPI_Irecv, and of MPI_Waitall. */
static void messages(void)
{
    for (int step = 0; step < 40; step++) {
        int own = rank + step, other = -1;
        MPI_Sendrecv(&own, 1, MPI_INT, right, 7, &other, 1, MPI_INT, left, 7, ALL, NO_STATUS);
        if (other != left + step)
            wrong("MPI_Sendrecv");
    }
    for (int step = 0; step < 30; step++) {
        int own = rank * step, other = -1;
        MPI_Request both[2];
        MPI_Irecv(&other, 1, MPI_INT, left, 8, ALL, &both[0]);
        MPI_Isend(&own, 1, MPI_INT, right, 8, ALL, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        if (other != left * step)
            wrong("MPI_Waitall");
    }
}

/* One MPI_Recv of rank 0, for whom rank 1 is late; 7 of MPI_Barrier, 5 of MPI_Allreduce, 2 of
 * MPI_Alltoallw, of 9 arguments. */
static void collectives(void)
{
    int from[RANKS_MAX], into[RANKS_MAX], counts[RANKS_MAX], places[RANKS_MAX];
    MPI_Datatype types[RANKS_MAX];

    MPI_Barrier(ALL);
    if (rank == 0)
        MPI_Recv(into, 1, MPI_INT, 1, 9, ALL, NO_STATUS);
    if (rank == 1) {
        usleep(300000);
        MPI_Send(&rank, 1, MPI_INT, 0, 9, ALL);
    }
    for (int step = 0; step < 6; step++)
        MPI_Barrier(ALL);
    for (int step = 0; step < 5; step++) {
        int own = rank + step, sum = 0;
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, ALL);
        if (sum != ranks * (ranks - 1) / 2 + ranks * step)
            wrong("MPI_Allreduce");
    }
    for (int step = 0; step < 2; step++) {
        for (int to = 0; to < ranks; to++) {
            from[to] = 100 * rank + to + step;
            into[to] = -1;
            counts[to] = 1;
            places[to] = to * (int)sizeof(int);
            types[to] = MPI_INT;
        }
        MPI_Alltoallw(from, counts, places, types, into, counts, places, types, ALL);
        for (int of = 0; of < ranks; of++)
            if (into[of] != 100 * of + rank + step)
                wrong("MPI_Alltoallw");
    }
}

/* 2 of MPI_Win_fence; one each of MPI_Win_allocate, MPI_Win_lock_all, MPI_Win_unlock_all and
 * MPI_Win_free; 3 of MPI_Rget_accumulate, of 13 arguments, and of MPI_Wait. */
static void windows(void)
{
    long *memory, one = 1, before = -1;
    MPI_Win window;

    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, ALL, &memory, &window);
    MPI_Win_fence(0, window);
    *memory = 0;
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    MPI_Win_lock_all(0, window);
    for (int step = 0; step < 3; step++) {
        MPI_Request request;
        MPI_Rget_accumulate(&one, 1, MPI_LONG, &before, 1, MPI_LONG, right, 0, 1, MPI_LONG, MPI_SUM,
                            window, &request);
        MPI_Wait(&request, NO_STATUS);
        if (before != step)
            wrong("MPI_Rget_accumulate");
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

/* A call within another. */
static int copied(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag)
{
    int there;

    (void)key, (void)extra, (void)value, (void)copy;
    MPI_Iprobe(MPI_ANY_SOURCE, 99, comm, &there, NO_STATUS);
    *flag = 0;
    return MPI_SUCCESS;
}

/* One each of MPI_Comm_dup and MPI_Comm_free. */
static void communicators(void)
{
    int key;
    MPI_Comm twin;

    MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(ALL, key, NULL);
    MPI_Comm_dup(ALL, &twin);
    MPI_Comm_free(&twin);
    MPI_Comm_delete_attr(ALL, key);
    MPI_Comm_free_keyval(&key);
}

/* TESTS of MPI_Test. */
static void *tests(void *nothing)
{
    for (int n = 0; n < TESTS; n++) {
        MPI_Request none = MPI_REQUEST_NULL;
        int done = 0;
        MPI_Test(&none, &done, NO_STATUS);
        if (!done)
            wrong("MPI_Test");
    }
    return nothing;
}

static int is_counted(void)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, "libweft_calls") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    int level;
    pthread_t threads[THREADS];
    int *users = dlsym(RTLD_DEFAULT, "user_sendrecvs");

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(ALL, &rank);
    MPI_Comm_size(ALL, &ranks);
    if (level < MPI_THREAD_MULTIPLE || ranks > RANKS_MAX)
        wrong("too few threads, or too many ranks");
    right = (rank + 1) % ranks;
    left = (rank + ranks - 1) % ranks;
    messages();
    collectives();
    windows();
    communicators();
    for (int n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, tests, NULL);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    MPI_Finalize();
    printf("@%d counted %d, user %d\n", rank, is_counted(), users ? *users : -1);
    if (rank == 0)
        printf("calls: good\n");
    return 0;
}
