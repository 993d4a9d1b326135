/*
 * Ranks that wait for rank 1, which sends each of them a word after so many seconds without a call;
 * all of them have sent each other something before.
 *
 *   waited SECONDS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, ranks, word = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int other = 0; other < ranks; other++) {
        int got;

        if (other != rank)
            MPI_Sendrecv(&word, 1, MPI_INT, other, 0, &got, 1, MPI_INT, other, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    }
    if (rank != 1) {
        printf("rank %d waits\n", rank);
        fflush(stdout);
        MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        sleep(argc > 1 ? atoi(argv[1]) : 1);
        for (int other = 0; other < ranks; other++)
            if (other != 1)
                MPI_Send(&word, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
