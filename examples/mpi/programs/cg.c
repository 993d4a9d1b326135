/*
 * CG: conjugate gradients, a sparse matrix-vector product with halo and two sums an iteration.
 *
 *     mpicc -O2 cg.c -o cg -lm
 *     weft mpirun -n 2 --lab nodes=2 -- ./cg weft 100
 *
 * The matrix is that of a 2-D Laplacian, in rows of column numbers and values; each rank has some
 * lines of the grid, and needs the lines before and after them. An iteration exchanges these,
 * multiplies, and makes two sums of 8 bytes over all ranks. A step is one iteration, a block solves
 * for the same right side from zero. Small: lines of 64 points; large: of 16384 (128 KiB).
 * The result is compared with that of all lines on one rank.
 */
#include "programs.h"
#include <math.h>

/* The part of the equations that a rank of `comm` has: so many points, with a line of others'
 * points before and after them in `p`. Row i has the entries from begins[i] to begins[i + 1]. */
struct equations {
    MPI_Comm comm;
    int first_line, lines, before, after;
    int *begins, *columns;
    double *values, *x, *r, *p, *q;
};

static int width, whole_steps;
static struct equations own, whole;

static int points(const struct equations *e)
{
    return e->lines * width;
}

static void make_matrix(struct equations *e)
{
    int entries = 0;

    e->begins = memory((points(e) + 1) * sizeof *e->begins);
    e->columns = memory(5 * points(e) * sizeof *e->columns);
    e->values = memory(5 * points(e) * sizeof *e->values);
    for (int i = 0; i < points(e); i++) {
        int column = i % width, self = i + width;
        int others[] = {self - width, column ? self - 1 : -1, self,
                        column < width - 1 ? self + 1 : -1, self + width};
        for (int n = 0; n < 5; n++)
            if (others[n] >= 0) {
                e->columns[entries] = others[n];
                e->values[entries++] = others[n] == self ? 4 : -1;
            }
        e->begins[i + 1] = entries;
    }
}

static void make(struct equations *e, MPI_Comm comm, int lines)
{
    int number, count;

    MPI_Comm_rank(comm, &number);
    MPI_Comm_size(comm, &count);
    e->comm = comm;
    e->lines = lines;
    e->first_line = number * lines;
    e->before = number > 0 ? number - 1 : MPI_PROC_NULL;
    e->after = number < count - 1 ? number + 1 : MPI_PROC_NULL;
    e->x = memory(points(e) * sizeof(double));
    e->r = memory(points(e) * sizeof(double));
    e->q = memory(points(e) * sizeof(double));
    e->p = memory((points(e) + 2 * width) * sizeof(double));
    make_matrix(e);
}

static void unmake(struct equations *e)
{
    void *all[] = {e->begins, e->columns, e->values, e->x, e->r, e->p, e->q};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* The lines before and after: what lies outside of the grid stays zero. */
static void halo(struct equations *e)
{
    double *first = e->p + width, *last = e->p + points(e);

    IN_MPI(MPI_Sendrecv(first, width, MPI_DOUBLE, e->before, 1, last + width, width, MPI_DOUBLE,
                        e->after, 1, e->comm, MPI_STATUS_IGNORE));
    IN_MPI(MPI_Sendrecv(last, width, MPI_DOUBLE, e->after, 2, e->p, width, MPI_DOUBLE, e->before,
                        2, e->comm, MPI_STATUS_IGNORE));
}

static double dot(const struct equations *e, const double *a, const double *b)
{
    double sum = 0, all;

    for (int i = 0; i < points(e); i++)
        sum += a[i] * b[i];
    IN_MPI(MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, e->comm));
    return all;
}

static void multiply(const struct equations *e)
{
    for (int i = 0; i < points(e); i++) {
        double sum = 0;
        for (int n = e->begins[i]; n < e->begins[i + 1]; n++)
            sum += e->values[n] * e->p[e->columns[n]];
        e->q[i] = sum;
    }
}

/* The right side is some pattern; x begins with zero. */
static void begin(struct equations *e)
{
    for (int i = 0; i < points(e); i++) {
        e->x[i] = 0;
        e->r[i] = 1 + sin(0.1 * (e->first_line * width + i));
        e->p[width + i] = e->r[i];
    }
}

static void solve(struct equations *e)
{
    double *p = e->p + width, square = dot(e, e->r, e->r);

    for (int iteration = 0; iteration < steps; iteration++) {
        halo(e);
        multiply(e);
        double before = square, alpha = square / dot(e, p, e->q);
        for (int i = 0; i < points(e); i++) {
            e->x[i] += alpha * p[i];
            e->r[i] -= alpha * e->q[i];
        }
        square = dot(e, e->r, e->r);
        for (int i = 0; i < points(e); i++)
            p[i] = e->r[i] + square / before * p[i];
    }
}

static void start(void)
{
    begin(&own);
}

static void block(void)
{
    solve(&own);
}

/* Sums in another order differ in the last digits. */
static void check(void)
{
    const double *right = whole.x + own.first_line * width;

    if (whole_steps != steps) {
        begin(&whole);
        solve(&whole);
        whole_steps = steps;
    }
    SPOIL(own.x[points(&own) / 2]);
    for (int i = 0; i < points(&own); i++)
        if (!(fabs(own.x[i] - right[i]) <= 1e-9 * (1 + fabs(right[i]))))
            wrong("point %d is %.12g, on one rank %.12g", i, own.x[i], right[i]);
}

static void run(const struct word *word)
{
    int lines = word->large ? 2 : 8;

    width = word->large ? 16384 : 64;
    make(&own, MPI_COMM_WORLD, lines);
    make(&whole, MPI_COMM_SELF, lines * ranks);
    whole_steps = 0;
    struct plan plan = {.bytes = width * sizeof(double), .steps = 10, .start = start,
                        .block = block, .check = check};
    measure(word, &plan);
    unmake(&whole);
    unmake(&own);
}

int main(int argc, char **argv)
{
    static const struct kernel cg = {"cg", one_mode, two_sizes, NULL, run};
    return program(argc, argv, &cg);
}
