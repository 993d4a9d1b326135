/* A job for tests of deaths, signals and cables: says who it is, then takes steps for ever, or so
 * many: mpiexec -n 3 ./steps [STEPS [asleep]]. `asleep`: after the first step all sleep. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, ranks;
    long steps = argc > 1 ? atol(argv[1]) : 0, sum, done = 0;
    double last = 0;

    /* Seen also where MPI_Init fails: what is refused in time has not even begun. */
    puts("begun");
    fflush(stdout);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    printf("@%d pid %d\n", rank, (int)getpid());
    fflush(stdout);
    while (!steps || done < steps) {
        long own = rank + done;
        MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (sum != (long)ranks * (ranks - 1) / 2 + ranks * done) {
            fprintf(stderr, "steps: rank %d: step %ld gave %ld\n", rank, done, sum);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        done++;
        if (rank == 0 && MPI_Wtime() - last > 0.1) {
            printf("@0 steps %ld\n", done);
            fflush(stdout);
            last = MPI_Wtime();
        }
        if (argc > 2 && !strcmp(argv[2], "asleep"))
            sleep(1000);
    }
    MPI_Finalize();
    if (rank == 0)
        printf("@0 done\n");
    return 0;
}
