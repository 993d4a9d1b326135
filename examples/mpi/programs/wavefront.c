/*
 * Wavefront: a sweep over a grid that is cut in two dimensions, plane after plane, as in LU.
 *
 *     mpicc -O2 wavefront.c -o wavefront -lm
 *     weft mpirun -n 2 --lab nodes=2 -- ./wavefront weft 100
 *
 * A rank waits for its north and west neighbours' last row and column of a plane, computes its own
 * points, each from the ones north and west of it, and passes its last row and column on. So all
 * ranks work at once on different planes, and each step waits for one message. A step is a plane;
 * a block a whole sweep. Small: rows of 1320 bytes, some 20 us of work; large: rows of 256 KiB.
 * The weights are such that the point (i, j) of plane k is i + j + k, exactly.
 */
#include "programs.h"

static int rows, columns, first_row, first_column, north, south, west, east;
/* (1 + rows) x (1 + columns): row 0 and column 0 are the neighbours'. */
static double *grid, *column;

static double *at(int row, int col)
{
    return grid + (size_t)row * (1 + columns) + col;
}

static double exact(int row, int col, int plane)
{
    return first_row + row + first_column + col + plane;
}

static void start(void)
{
    for (int r = 1; r <= rows; r++)
        for (int c = 1; c <= columns; c++)
            *at(r, c) = exact(r, c, 0);
}

/* The row and the column before this rank's: the neighbours', or the edge of the grid. */
static void receive(int plane)
{
    if (north != MPI_PROC_NULL)
        IN_MPI(MPI_Recv(at(0, 1), columns, MPI_DOUBLE, north, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    else
        for (int c = 1; c <= columns; c++)
            *at(0, c) = exact(0, c, plane);
    if (west != MPI_PROC_NULL)
        IN_MPI(MPI_Recv(column, rows, MPI_DOUBLE, west, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int r = 1; r <= rows; r++)
        *at(r, 0) = west != MPI_PROC_NULL ? column[r - 1] : exact(r, 0, plane);
}

static void pass_on(void)
{
    if (south != MPI_PROC_NULL)
        IN_MPI(MPI_Send(at(rows, 1), columns, MPI_DOUBLE, south, 1, MPI_COMM_WORLD));
    if (east == MPI_PROC_NULL)
        return;
    for (int r = 1; r <= rows; r++)
        column[r - 1] = *at(r, columns);
    IN_MPI(MPI_Send(column, rows, MPI_DOUBLE, east, 2, MPI_COMM_WORLD));
}

static void sweep(void)
{
    for (int plane = 1; plane <= steps; plane++) {
        receive(plane);
        for (int r = 1; r <= rows; r++) {
            const double *above = at(r - 1, 0);
            double *own = at(r, 0);
            for (int c = 1; c <= columns; c++)
                own[c] = 0.25 * (above[c] + own[c - 1]) + 0.5 * own[c] + 1;
        }
        pass_on();
    }
}

static void check(void)
{
    SPOIL(*at(rows, columns));
    for (int r = 1; r <= rows; r++)
        for (int c = 1; c <= columns; c++)
            if (*at(r, c) != exact(r, c, steps))
                wrong("point (%d, %d) is %g, not %g", r, c, *at(r, c), exact(r, c, steps));
}

static void run(const struct word *word)
{
    int dims[2] = {0}, coords[2], periods[2] = {0};
    MPI_Comm comm;

    rows = word->large ? 2 : 45;
    columns = word->large ? 32768 : 165;
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm);
    MPI_Cart_coords(comm, rank, 2, coords);
    MPI_Cart_shift(comm, 0, 1, &north, &south);
    MPI_Cart_shift(comm, 1, 1, &west, &east);
    MPI_Comm_free(&comm);
    first_row = coords[0] * rows;
    first_column = coords[1] * columns;
    grid = memory((size_t)(1 + rows) * (1 + columns) * sizeof *grid);
    column = memory(rows * sizeof *column);
    struct plan plan = {.bytes = columns * sizeof *grid, .steps = 20, .start = start,
                        .block = sweep, .check = check};
    measure(word, &plan);
    free(column);
    free(grid);
}

int main(int argc, char **argv)
{
    static const struct kernel own = {"wavefront", one_mode, two_sizes, NULL, run};
    return program(argc, argv, &own);
}
