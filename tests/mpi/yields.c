/* Messages there and back between two ranks until Weft has answered calls for giving the processor
 * away (`answered`), or for a while in which it must not (`kernel`); with the level of threads that
 * is named, 0 to 3, and a session besides if that is asked for (`session`). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 1000, LEAST = 20, MOST = 20000 };

static long long answered(void)
{
    unsigned long long (*said)(void) = dlsym(RTLD_DEFAULT, "weft_mpi_yields_answered");

    return said ? (long long)said() : -1;
}

int main(int argc, char **argv)
{
    int wanted = argc > 2 ? atoi(argv[2]) : 0, level, rank, done = 0, one = 0, batch;
    int wants = argc > 1 && strcmp(argv[1], "answered") == 0;
    long long all;

    MPI_Init_thread(&argc, &argv, wanted, &level);
#if MPI_VERSION >= 4
    MPI_Session session;
    if (argc > 3 && strcmp(argv[3], "session") == 0) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Session_finalize(&session);
    }
#endif
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (batch = 0; batch < MOST && !done; batch++) {
        for (int i = 0; i < ROUNDS; i++) {
            if (rank == 0)
                MPI_Send(&i, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&one, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank == 1)
                MPI_Send(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        }
        /* Whether somebody else needs the processors is not for this program to say: it waits for a
         * moment when nobody does. */
        all = answered();
        done = wants ? all > 0 : batch >= LEAST;
        MPI_Allreduce(MPI_IN_PLACE, &done, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    }
    if (level < wanted || (wants ? all <= 0 : all > 0)) {
        printf("yields: level %d, %lld answered\n", level, all);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    if (rank == 0)
        puts("yields: good");
    return 0;
}
