/* Graphs whose edges are named by ranks all over: what a rank learns of its neighbours must be what
 * was named. Each rank sends to itself in that, as much as it happens to be, and takes what comes
 * from anyone. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 300 };

static int rank, ranks, round_;

/* A number below `limit` that two ranks have in a round. */
static int any(int from, int to, int limit)
{
    unsigned some = (unsigned)(from * 31 + to * 17 + round_ * 7 + limit) * 2654435761u;

    return (int)(some >> 16) % limit;
}

/* Most edges are there, those from ranks to themselves as well. */
static int is_edge(int from, int to)
{
    return any(from, to, 4) > 0;
}

/* Whether these are the ranks that `from` or, if that is negative, `to` has edges with. */
static int are(const int *found, int count, int from, int to)
{
    int seen[ranks], wanted = 0;

    for (int i = 0; i < ranks; i++)
        seen[i] = 0;
    for (int i = 0; i < count; i++)
        seen[found[i]]++;
    for (int i = 0; i < ranks; i++) {
        int edge = from >= 0 ? is_edge(from, i) : is_edge(i, to);
        if (seen[i] != edge)
            return 0;
        wanted += edge;
    }
    return wanted == count;
}

/* The edges that this rank names; how many. */
static int name_some(int *from, int *degrees, int *to)
{
    int count = 0;

    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++)
            if (is_edge(a, b) && any(a, b, ranks) == rank)
                from[count] = a, degrees[count] = 1, to[count++] = b;
    return count;
}

int main(int argc, char **argv)
{
    int good = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int most = ranks * ranks, *all = calloc(5 * most, sizeof *all);
    int *from = all, *degrees = all + most, *to = all + 2 * most, *in = all + 3 * most;
    int *out = all + 4 * most;
    for (round_ = 0; round_ < ROUNDS && good; round_++) {
        int count = name_some(from, degrees, to), before, after, weighted;
        MPI_Comm graph;

        MPI_Dist_graph_create(MPI_COMM_WORLD, count, from, degrees, to, MPI_UNWEIGHTED,
                              MPI_INFO_NULL, 0, &graph);
        MPI_Dist_graph_neighbors_count(graph, &before, &after, &weighted);
        MPI_Dist_graph_neighbors(graph, before, in, MPI_UNWEIGHTED, after, out, MPI_UNWEIGHTED);
        good = are(in, before, -1, rank) && are(out, after, rank, 0);
        if (!good)
            printf("graph: round %d, rank %d has other neighbours than were named\n", round_, rank);
        MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
        MPI_Comm_free(&graph);
    }
    free(all);
    if (!good)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    if (rank == 0)
        puts("graph: good");
    return 0;
}
