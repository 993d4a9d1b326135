/* Messages between two ranks on different nodes, then a window: prints how many packet sockets for
 * Weft's frames there are on this rank's node before and after it is used. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The EtherType of Weft's frames, as the kernel lists it. */
#define WEFT " 88b5 "

static int sockets(void)
{
    char line[256];
    int count = 0;
    FILE *list = fopen("/proc/self/net/packet", "r");

    if (!list)
        MPI_Abort(MPI_COMM_WORLD, 2);
    while (fgets(line, sizeof line, list))
        count += strstr(line, WEFT) != NULL;
    fclose(list);
    return count;
}

int main(int argc, char **argv)
{
    int rank, before, after, got = -1, window = -1;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 100; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 0, &got, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    before = sockets();
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Win_create(&window, sizeof window, sizeof window, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1 - rank, 0, win);
    MPI_Put(&rank, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, win);
    MPI_Win_unlock(1 - rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    if (window != 1 - rank || got != 1 - rank) {
        printf("rank %d: %d came by a message and %d by a put\n", rank, got, window);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Win_unlock(rank, win);
    after = sockets();
    MPI_Win_free(&win);
    printf("window_later: rank %d has %d and %d\n", rank, before, after);
    MPI_Finalize();
    return 0;
}
