/*
 * What a rank has begun goes on while it computes: no later call of its own is needed. A rank that
 * computes here does so until the other one says, by a file, that all has come; were a call needed,
 * that would be for ever, and a limit ends it.
 *
 *   mpicc -O2 attended.c -o attended && mpiexec -n 2 ./attended DIRECTORY [KIND...]
 *
 * Kinds: messages, memory (put and get), atomics (fetch-and-op).
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_S 60.0
#define BURST 40
#define LONGEST 300000

static int rank;
static const char *directory;
/* Counts what is waited for: each has a file of its own. */
static int step;

static void file_of_step(char *name, size_t room)
{
    snprintf(name, room, "%s/step-%d", directory, step);
}

static void say_so(void)
{
    char name[4096];

    file_of_step(name, sizeof name);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    step++;
}

/* Computes, without a call of MPI, until the other rank has said so. */
static void compute(const char *what, int bytes)
{
    char name[4096];
    double begun = MPI_Wtime();

    file_of_step(name, sizeof name);
    while (access(name, F_OK) != 0) {
        if (MPI_Wtime() - begun > LIMIT_S) {
            fprintf(stderr, "attended: %s of %d bytes needs a call of a rank that computes\n", what,
                    bytes);
            MPI_Abort(MPI_COMM_WORLD, 1);
            exit(1);
        }
    }
    step++;
}

static char pattern(int message, int at)
{
    return (char)(7 * message + at);
}

/* Rank 0 starts to send and then computes; rank 1 receives. */
static void messages(char *buf, int bytes, int count)
{
    MPI_Request all[BURST];

    if (rank == 0) {
        for (int m = 0; m < count; m++) {
            for (int i = 0; i < bytes; i++)
                buf[(size_t)m * bytes + i] = pattern(m, i);
            MPI_Isend(buf + (size_t)m * bytes, bytes, MPI_CHAR, 1, m, MPI_COMM_WORLD, &all[m]);
        }
        compute("a message", bytes);
        MPI_Waitall(count, all, MPI_STATUSES_IGNORE);
        return;
    }
    for (int m = 0; m < count; m++) {
        MPI_Recv(buf, bytes, MPI_CHAR, 0, m, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < bytes; i++) {
            if (buf[i] != pattern(m, i)) {
                fprintf(stderr, "attended: message %d of %d bytes is wrong at %d\n", m, bytes, i);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    say_so();
}

/* Rank 1 computes while rank 0 uses its memory. */
static void memory(char *buf, int bytes, int atomics)
{
    MPI_Win window;
    long one = 1, before = 0;
    int wrong = 0;
    char *base = calloc(1, (size_t)bytes + 16);

    MPI_Win_create(base, (size_t)bytes + 16, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_lock_all(0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        compute("an access to memory", bytes);
    } else {
        if (atomics) {
            for (long i = 0; i < 3; i++) {
                MPI_Fetch_and_op(&one, &before, MPI_LONG, 1, 0, MPI_SUM, window);
                MPI_Win_flush(1, window);
                wrong |= before != i;
            }
        } else {
            for (int i = 0; i < bytes; i++)
                buf[i] = pattern(3, i);
            MPI_Put(buf, bytes, MPI_CHAR, 1, 16, bytes, MPI_CHAR, window);
            MPI_Win_flush(1, window);
            memset(buf, 0, bytes);
            MPI_Get(buf, bytes, MPI_CHAR, 1, 16, bytes, MPI_CHAR, window);
            MPI_Win_flush(1, window);
            wrong = buf[bytes - 1] != pattern(3, bytes - 1);
        }
        if (wrong) {
            fprintf(stderr, "attended: memory of %d bytes is wrong\n", bytes);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        say_so();
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(base);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {8, 1320, 16384, LONGEST};
    char *buf = malloc((size_t)BURST * LONGEST);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    directory = argc > 1 ? argv[1] : ".";
    for (int kind = 2; kind < argc; kind++) {
        if (!strcmp(argv[kind], "messages")) {
            /* The very first message has no connection yet. */
            for (int i = 0; i < 4; i++)
                messages(buf, sizes[i], 1);
            for (int round = 0; round < 20; round++)
                for (int i = 0; i < 3; i++)
                    messages(buf, sizes[i], BURST);
            messages(buf, LONGEST, BURST);
        } else {
            for (int i = 0; i < 4; i++)
                memory(buf, sizes[i], !strcmp(argv[kind], "atomics"));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("attended: good\n");
    MPI_Finalize();
    free(buf);
    return 0;
}
