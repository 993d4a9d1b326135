/* Heat in a box: a 3-D Jacobi stencil of seven points, the grid cut into blocks, one for each rank.
 *
 *     mpicc -O2 heat.c -o heat -lm
 *     weft mpirun -n 2 --lab nodes=2 -- ./heat 48 400
 *
 * Arguments: points along each side of the grid (of the whole box), and steps. Every step each rank
 * exchanges the faces of its block with its neighbours, by datatypes, and computes its points anew.
 * The start is a wave of which it is known, to the last digit, what the scheme makes of it: after
 * every step it is lower by one factor. So every point is checked at the end.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846
/* Below 1/6 the scheme is stable. */
#define ALPHA 0.15

/* A rank's block: its points, in the middle of one layer of neighbours' points on each side. */
struct block {
    int points[3], first[3], size[3];
    int neighbours[6];
    MPI_Comm comm;
    MPI_Datatype inner[6], outer[6];
};

static size_t at(const struct block *b, int x, int y, int z)
{
    return ((size_t)x * (size_t)b->size[1] + (size_t)y) * (size_t)b->size[2] + (size_t)z;
}

/* The layers that go to a neighbour and come from it. */
static void make_faces(struct block *b)
{
    for (int side = 0; side < 6; side++) {
        int axis = side / 2, low = side % 2 == 0;
        int extent[3], start[3];
        for (int i = 0; i < 3; i++) {
            extent[i] = i == axis ? 1 : b->points[i];
            start[i] = 1;
        }
        start[axis] = low ? 1 : b->points[axis];
        MPI_Type_create_subarray(3, b->size, extent, start, MPI_ORDER_C, MPI_DOUBLE,
                                 &b->inner[side]);
        start[axis] = low ? 0 : b->points[axis] + 1;
        MPI_Type_create_subarray(3, b->size, extent, start, MPI_ORDER_C, MPI_DOUBLE,
                                 &b->outer[side]);
        MPI_Type_commit(&b->inner[side]);
        MPI_Type_commit(&b->outer[side]);
    }
}

static void cut(struct block *b, int side_points)
{
    int ranks, rank, dims[3] = {0}, coords[3], periods[3] = {0};

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 1, &b->comm);
    MPI_Comm_rank(b->comm, &rank);
    MPI_Cart_coords(b->comm, rank, 3, coords);
    for (int i = 0; i < 3; i++) {
        int share = side_points / dims[i], more = side_points % dims[i];
        b->points[i] = share + (coords[i] < more);
        b->first[i] = coords[i] * share + (coords[i] < more ? coords[i] : more);
        b->size[i] = b->points[i] + 2;
        MPI_Cart_shift(b->comm, i, 1, &b->neighbours[2 * i], &b->neighbours[2 * i + 1]);
    }
    make_faces(b);
}

/* The wave along one axis; zero at the walls. */
static double wave(int point, int side_points)
{
    return sin(PI * (point + 1) / (side_points + 1));
}

static void start_wave(const struct block *b, double *u, int n)
{
    for (int x = 1; x <= b->points[0]; x++)
        for (int y = 1; y <= b->points[1]; y++)
            for (int z = 1; z <= b->points[2]; z++)
                u[at(b, x, y, z)] = wave(b->first[0] + x - 1, n) * wave(b->first[1] + y - 1, n) *
                                    wave(b->first[2] + z - 1, n);
}

static void exchange(const struct block *b, double *u)
{
    MPI_Request all[12];

    for (int side = 0; side < 6; side++) {
        /* A face that goes down arrives at the neighbour's upper side. */
        MPI_Irecv(u, 1, b->outer[side], b->neighbours[side], side ^ 1, b->comm, &all[side]);
        MPI_Isend(u, 1, b->inner[side], b->neighbours[side], side, b->comm, &all[6 + side]);
    }
    MPI_Waitall(12, all, MPI_STATUSES_IGNORE);
}

static void step(const struct block *b, const double *u, double *next)
{
    size_t dx = (size_t)b->size[1] * (size_t)b->size[2], dy = (size_t)b->size[2];

    for (int x = 1; x <= b->points[0]; x++) {
        for (int y = 1; y <= b->points[1]; y++) {
            const double *row = u + at(b, x, y, 0);
            double *to = next + at(b, x, y, 0);
            for (int z = 1; z <= b->points[2]; z++)
                to[z] = row[z] + ALPHA * (row[z - 1] + row[z + 1] + row[z - dy] + row[z + dy] +
                                          row[z - dx] + row[z + dx] - 6 * row[z]);
        }
    }
}

/* The greatest difference from what the scheme must give. */
static double error(const struct block *b, const double *u, int n, int steps)
{
    double half = sin(PI / (2 * (n + 1))), worst = 0;
    double factor = pow(1 - 12 * ALPHA * half * half, steps);

    for (int x = 1; x <= b->points[0]; x++)
        for (int y = 1; y <= b->points[1]; y++)
            for (int z = 1; z <= b->points[2]; z++) {
                double right = factor * wave(b->first[0] + x - 1, n) *
                               wave(b->first[1] + y - 1, n) * wave(b->first[2] + z - 1, n);
                double off = fabs(u[at(b, x, y, z)] - right);
                worst = off > worst ? off : worst;
            }
    return worst;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 48, steps = argc > 2 ? atoi(argv[2]) : 400, rank, ranks;
    double spent[2] = {0}, most[2], off, worst;
    struct block b;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (n < 2 || steps < 1) {
        if (rank == 0)
            fprintf(stderr, "usage: heat [POINTS [STEPS]]\n");
        MPI_Finalize();
        return 2;
    }
    cut(&b, n);
    size_t bytes = at(&b, b.size[0], 0, 0) * sizeof(double);
    double *u = malloc(bytes), *next = malloc(bytes);
    if (!u || !next)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(u, 0, bytes);
    memset(next, 0, bytes);
    start_wave(&b, u, n);
    MPI_Barrier(b.comm);
    double start = MPI_Wtime();
    for (int s = 0; s < steps; s++) {
        double before = MPI_Wtime(), *swap = u;
        exchange(&b, u);
        spent[1] += MPI_Wtime() - before;
        step(&b, u, next);
        u = next;
        next = swap;
    }
    spent[0] = MPI_Wtime() - start;
    off = error(&b, u, n, steps);
    MPI_Reduce(spent, most, 2, MPI_DOUBLE, MPI_MAX, 0, b.comm);
    MPI_Allreduce(&off, &worst, 1, MPI_DOUBLE, MPI_MAX, b.comm);
    if (rank == 0)
        printf("heat: %d ranks, %d^3 points, %d steps: %.2f us a step, of it %.2f us exchange; "
               "greatest error %.1e\n",
               ranks, n, steps, most[0] / steps * 1e6, most[1] / steps * 1e6, worst);
    for (int side = 0; side < 6; side++) {
        MPI_Type_free(&b.inner[side]);
        MPI_Type_free(&b.outer[side]);
    }
    free(u);
    free(next);
    MPI_Comm_free(&b.comm);
    MPI_Finalize();
    if (!(worst < 1e-10)) {
        fprintf(stderr, "heat: the result is wrong\n");
        return 1;
    }
    return 0;
}
