/*
 * Heat in a box: a 3-D Jacobi stencil of seven points, the grid cut into blocks, one for each rank.
 *
 *     mpicc -O2 heat.c -o heat -lm
 *     weft mpirun -n 2 --lab nodes=2 -- ./heat weft 100 plain:small overlap:large
 *
 * Every step each rank exchanges the faces of its block with its neighbours, by datatypes, and
 * computes its points anew. `plain`: one after the other; `overlap`: the points that need no
 * neighbour while the faces travel; `persistent`: by requests made once; `neighbour`: by one
 * neighbourhood collective. Small: 32^3 points in all, large: 96^3.
 * The start is a wave of which it is known, to the last digits, what the scheme makes of it: after
 * every step it is lower by one factor. So every point is checked at the end of a block.
 */
#include "programs.h"
#include <math.h>

#define PI 3.14159265358979323846
/* Below 1/6 the scheme is stable. */
#define ALPHA 0.15

enum { PLAIN, OVERLAP, PERSISTENT, NEIGHBOUR };
static int mode, side_points;
static MPI_Comm comm;
/* This rank's block: its points, in the middle of one layer of neighbours' points on each side. */
static int points[3], first[3], size[3], neighbours[6];
/* The layers that go to a neighbour and come from it. */
static MPI_Datatype inner[6], outer[6];
static double *grids[2], *waves[3];
static MPI_Request made[2][12];

static size_t at(int x, int y, int z)
{
    return ((size_t)x * size[1] + y) * size[2] + z;
}

static void make_faces(void)
{
    for (int side = 0; side < 6; side++) {
        int axis = side / 2, low = side % 2 == 0, extent[3], from[3];
        for (int i = 0; i < 3; i++) {
            extent[i] = i == axis ? 1 : points[i];
            from[i] = 1;
        }
        from[axis] = low ? 1 : points[axis];
        MPI_Type_create_subarray(3, size, extent, from, MPI_ORDER_C, MPI_DOUBLE, &inner[side]);
        from[axis] = low ? 0 : points[axis] + 1;
        MPI_Type_create_subarray(3, size, extent, from, MPI_ORDER_C, MPI_DOUBLE, &outer[side]);
        MPI_Type_commit(&inner[side]);
        MPI_Type_commit(&outer[side]);
    }
}

/* This rank's block, and the wave along each axis of it; zero at the walls. */
static void cut(void)
{
    int dims[3] = {0}, coords[3], periods[3] = {0};

    MPI_Dims_create(ranks, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &comm);
    MPI_Cart_coords(comm, rank, 3, coords);
    for (int i = 0; i < 3; i++) {
        int share = side_points / dims[i], more = side_points % dims[i];
        points[i] = share + (coords[i] < more);
        first[i] = coords[i] * share + (coords[i] < more ? coords[i] : more);
        size[i] = points[i] + 2;
        MPI_Cart_shift(comm, i, 1, &neighbours[2 * i], &neighbours[2 * i + 1]);
        waves[i] = memory(size[i] * sizeof *waves[i]);
        for (int p = 0; p < size[i]; p++)
            waves[i][p] = sin(PI * (first[i] + p) / (side_points + 1));
    }
}

/* A face that goes down arrives at the neighbour's upper side. */
static void begin(double *u, MPI_Request *all)
{
    for (int side = 0; side < 6; side++) {
        MPI_Irecv(u, 1, outer[side], neighbours[side], side ^ 1, comm, &all[side]);
        MPI_Isend(u, 1, inner[side], neighbours[side], side, comm, &all[6 + side]);
    }
}

static void make_requests(void)
{
    for (int g = 0; g < 2; g++)
        for (int side = 0; side < 6; side++) {
            MPI_Recv_init(grids[g], 1, outer[side], neighbours[side], side ^ 1, comm,
                          &made[g][side]);
            MPI_Send_init(grids[g], 1, inner[side], neighbours[side], side, comm,
                          &made[g][6 + side]);
        }
}

static void collective(double *u)
{
    static const int ones[6] = {1, 1, 1, 1, 1, 1};
    static const MPI_Aint places[6];
    MPI_Neighbor_alltoallw(u, ones, places, inner, u, ones, places, outer, comm);
}

/* Computes the points from `low` to `high`, inclusive. */
static void points_anew(const double *u, double *next, const int *low, const int *high)
{
    size_t dx = (size_t)size[1] * size[2], dy = size[2];

    for (int x = low[0]; x <= high[0]; x++)
        for (int y = low[1]; y <= high[1]; y++) {
            const double *row = u + at(x, y, 0);
            double *to = next + at(x, y, 0);
            for (int z = low[2]; z <= high[2]; z++)
                to[z] = row[z] + ALPHA * (row[z - 1] + row[z + 1] + row[z - dy] + row[z + dy] +
                                          row[z - dx] + row[z + dx] - 6 * row[z]);
        }
}

/* The inner points while the faces travel, then the six sides of the block, each point once. */
static void overlapped(double *u, double *next)
{
    MPI_Request all[12];
    int low[3] = {2, 2, 2}, high[3] = {points[0] - 1, points[1] - 1, points[2] - 1};

    IN_MPI(begin(u, all));
    points_anew(u, next, low, high);
    IN_MPI(MPI_Waitall(12, all, MPI_STATUSES_IGNORE));
    for (int axis = 2; axis >= 0; axis--) {
        int from[3] = {low[0], low[1], low[2]}, to[3] = {high[0], high[1], high[2]};
        from[axis] = to[axis] = 1;
        points_anew(u, next, from, to);
        from[axis] = to[axis] = points[axis];
        if (points[axis] > 1)
            points_anew(u, next, from, to);
        low[axis] = 1;
        high[axis] = points[axis];
    }
}

static void step(int g)
{
    static const int low[3] = {1, 1, 1};
    double *u = grids[g], *next = grids[1 - g];
    MPI_Request all[12];

    if (mode == OVERLAP) {
        overlapped(u, next);
        return;
    }
    if (mode == PLAIN) {
        IN_MPI((begin(u, all), MPI_Waitall(12, all, MPI_STATUSES_IGNORE)));
    } else if (mode == PERSISTENT) {
        IN_MPI((MPI_Startall(12, made[g]), MPI_Waitall(12, made[g], MPI_STATUSES_IGNORE)));
    } else {
        IN_MPI(collective(u));
    }
    points_anew(u, next, low, points);
}

static void block(void)
{
    for (int s = 0; s < steps; s++)
        step(s % 2);
}

/* The wave, or with `test` whether it is what the scheme must have made of it. */
static void wave(double *u, double factor, int test)
{
    for (int x = 1; x <= points[0]; x++)
        for (int y = 1; y <= points[1]; y++)
            for (int z = 1; z <= points[2]; z++) {
                double right = factor * waves[0][x] * waves[1][y] * waves[2][z];
                if (!test)
                    u[at(x, y, z)] = right;
                else if (!(fabs(u[at(x, y, z)] - right) < 1e-10))
                    wrong("point (%d, %d, %d) is %g, not %g", x, y, z, u[at(x, y, z)], right);
            }
}

static void start(void)
{
    wave(grids[0], 1, 0);
}

static void check(void)
{
    double half = sin(PI / (2 * (side_points + 1)));

    SPOIL(grids[steps % 2][at(1, 1, 1)]);
    wave(grids[steps % 2], pow(1 - 12 * ALPHA * half * half, steps), 1);
}

static void run(const struct word *word)
{
    mode = word->mode;
    side_points = word->large ? 96 : 32;
    cut();
    make_faces();
    for (int g = 0; g < 2; g++)
        grids[g] = memory(at(size[0], 0, 0) * sizeof *grids[g]);
    make_requests();
    struct plan plan = {.bytes = points[1] * points[2] * sizeof(double), .steps = 10,
                        .start = start, .block = block, .check = check};
    measure(word, &plan);
    for (int i = 0; i < 12; i++) {
        MPI_Request_free(&made[0][i]);
        MPI_Request_free(&made[1][i]);
        MPI_Type_free(i < 6 ? &inner[i] : &outer[i - 6]);
    }
    for (int i = 0; i < 3; i++)
        free(waves[i]);
    free(grids[0]);
    free(grids[1]);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"plain", "overlap", "persistent", "neighbour", NULL};
    static const struct kernel own = {"heat", modes, two_sizes, NULL, run};
    return program(argc, argv, &own);
}
