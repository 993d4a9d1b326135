/*
 * Transpose: a transform in two dimensions, as an FFT is done: all rows, a transposition by
 * MPI_Alltoall, all rows again.
 *
 *     mpicc -O2 transpose.c -o transpose -lm
 *     weft mpirun -n 4 --lab nodes=2 -- ./transpose weft 100
 *
 * The transform is that of Walsh and Hadamard: the butterflies of an FFT without its factors, and
 * exact. A step transforms this rank's rows and transposes. Two steps are the whole transform,
 * which makes one wave into one point and back; a block is an odd number of them. Small: 32 x 32
 * points; large: 512 x 512. (The number of ranks must be a divisor.)
 */
#include "programs.h"

static int side, rows;
/* This rank's rows, and the squares that go to and come from each rank. */
static double *grid, *out, *in;

/* The wave is made of the bits of 5 and 3 along its axes: 1 or -1. */
static double wave(int row, int column)
{
    return __builtin_parity((row & 5) ^ ((column & 3) << 8)) ? -1 : 1;
}

static void start(void)
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < side; c++)
            grid[r * side + c] = wave(rank * rows + r, c);
}

static void transform(double *row)
{
    for (int half = 1; half < side; half *= 2)
        for (int from = 0; from < side; from += 2 * half)
            for (int i = from; i < from + half; i++) {
                double a = row[i], b = row[i + half];
                row[i] = a + b;
                row[i + half] = a - b;
            }
}

/* The square for each rank goes out as it is, and is turned when it has come. */
static void transpose(void)
{
    int square = rows * rows;

    for (int to = 0; to < ranks; to++)
        for (int r = 0; r < rows; r++)
            memcpy(out + to * square + r * rows, grid + r * side + to * rows,
                   rows * sizeof *grid);
    IN_MPI(MPI_Alltoall(out, square, MPI_DOUBLE, in, square, MPI_DOUBLE, MPI_COMM_WORLD));
    for (int from = 0; from < ranks; from++)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < rows; c++)
                grid[c * side + from * rows + r] = in[from * square + r * rows + c];
}

static void block(void)
{
    for (int step = 0; step < steps; step++) {
        for (int r = 0; r < rows; r++)
            transform(grid + r * side);
        transpose();
        /* So that a whole transform undoes itself: a power of two, which is exact. */
        if (step % 2)
            for (int i = 0; i < rows * side; i++)
                grid[i] /= side;
    }
}

/* All is zero, but for the point that stands for the wave. */
static void check(void)
{
    SPOIL(grid[0]);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < side; c++) {
            double right = rank * rows + r == 5 && c == 3 ? side : 0;
            if (grid[r * side + c] != right)
                wrong("point (%d, %d) is %g, not %g", r, c, grid[r * side + c], right);
        }
}

static void run(const struct word *word)
{
    side = word->large ? 512 : 32;
    rows = side / ranks;
    if (rows * ranks != side)
        wrong("%d ranks cannot share %d rows", ranks, side);
    grid = memory(rows * side * sizeof *grid);
    out = memory(rows * side * sizeof *out);
    in = memory(rows * side * sizeof *in);
    struct plan plan = {.bytes = rows * rows * sizeof *grid, .steps = 10,
                        .start = start, .block = block, .check = check};
    measure(word, &plan);
    free(in);
    free(out);
    free(grid);
}

int main(int argc, char **argv)
{
    static const struct kernel own = {"transpose", one_mode, two_sizes, NULL, run};
    return program(argc, argv, &own);
}
