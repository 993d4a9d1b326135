/*
 * Wrong and unusual arguments of collective operations. Whatever the MPI library says to them by
 * its own functions (PMPI_*) it is to say to them by those that Weft has replaced, and the program
 * goes on. Meant for `weft mpirun --collectives`, but right under any MPI.
 *
 *   odd [--weft N]
 *
 * --weft N: fails unless Weft has done N operations or more in each process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As many as Weft does whatever the library is: in bytes 2048 and 8. */
enum { ROW = 512, FEW = 2 };

static int rank, ranks;
/* What error handlers were told, how often, and how often by one that is not the communicator's. */
static int told, times, elsewhere;
static const char *last = "nothing";

static void bad(const char *format, ...)
{
    va_list list;

    fprintf(stderr, "odd: rank %d: ", rank);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int class_of(int code)
{
    int class = MPI_SUCCESS;

    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

static void on_comm(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    told = class_of(*code), times++;
}

/* The error handler for what belongs to no communicator of the program's. */
static void on_others(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    told = class_of(*code), times++, elsewhere++;
}

/* The error of a call, whether it comes back or goes to an error handler (MPICH gives no code back
 * after one), and how often one was called. */
#define ERROR(call) ({ \
    told = MPI_SUCCESS, times = elsewhere = 0; \
    int class = class_of(call); \
    (class ? class : told) + 1000 * times + 10000 * elsewhere; \
})

/* By the library's own name, and by the replaced one. Says whether it is an error. */
#define SAME(what, ...) ({ \
    int wanted = ERROR(P##what(__VA_ARGS__)); \
    same(#what "(" #__VA_ARGS__ ")", wanted, ERROR(what(__VA_ARGS__))); \
})

static int same(const char *call, int wanted, int got)
{
    if (wanted != got)
        bad("%s: error %d instead of %d", call, got, wanted);
    last = call;
    return wanted != MPI_SUCCESS;
}

static void twice(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] = 2 * ((int *)in)[i] + ((int *)inout)[i];
}

/* Nothing is there, and nothing is to be done. */
static void nothing(MPI_Comm comm)
{
    int row[ROW] = {0}, into[ROW] = {0}, errors = 0;

    errors += SAME(MPI_Bcast, NULL, 0, MPI_INT, 0, comm);
    errors += SAME(MPI_Allreduce, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
    errors += SAME(MPI_Allreduce, row, into, 0, MPI_INT, MPI_SUM, comm);
    errors += SAME(MPI_Allreduce, MPI_IN_PLACE, NULL, 0, MPI_INT, MPI_SUM, comm);
#if MPI_VERSION >= 4
    errors += SAME(MPI_Bcast_c, NULL, 0, MPI_INT, 0, comm);
    errors += SAME(MPI_Allreduce_c, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
#endif
    if (errors)
        bad("%d errors where nothing is to be done", errors);
}

/* Buffers that are none. Open MPI looks for nobody's memory at NULL and crashes. */
static void buffers(MPI_Comm comm)
{
    int row[ROW] = {0}, errors = 0;

    errors += SAME(MPI_Allreduce, row, MPI_IN_PLACE, FEW, MPI_INT, MPI_SUM, comm);
    errors += SAME(MPI_Allreduce, MPI_IN_PLACE, MPI_IN_PLACE, FEW, MPI_INT, MPI_SUM, comm);
    errors += SAME(MPI_Allreduce, row, row, FEW, MPI_INT, MPI_SUM, comm);
#ifndef OPEN_MPI
    errors += SAME(MPI_Bcast, NULL, ROW, MPI_INT, 0, comm);
    errors += SAME(MPI_Allreduce, NULL, row, FEW, MPI_INT, MPI_SUM, comm);
    errors += SAME(MPI_Allreduce, row, NULL, FEW, MPI_INT, MPI_SUM, comm);
    errors += SAME(MPI_Allreduce, MPI_IN_PLACE, NULL, FEW, MPI_INT, MPI_SUM, comm);
    errors += SAME(MPI_Bcast_c, NULL, ROW, MPI_INT, 0, comm);
    errors += SAME(MPI_Allreduce_c, NULL, row, FEW, MPI_INT, MPI_SUM, comm);
    errors += SAME(MPI_Allreduce_c, row, MPI_IN_PLACE, FEW, MPI_INT, MPI_SUM, comm);
#endif
    if (errors < 3)
        bad("only %d wrong buffers are errors", errors);
}

static void numbers(MPI_Comm comm)
{
    int row[ROW] = {0}, errors = 0;
    const int roots[] = {-1, ranks, 1 << 30, MPI_PROC_NULL, MPI_ROOT, MPI_ANY_SOURCE, -2000000000};

    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        errors += SAME(MPI_Bcast, row, ROW, MPI_INT, roots[i], comm);
    errors += SAME(MPI_Bcast, row, -1, MPI_INT, 0, comm);
    errors += SAME(MPI_Bcast, row, -2000000000, MPI_INT, 0, comm);
#ifdef OPEN_MPI
    /* MPICH crashes. */
    errors += SAME(MPI_Allreduce, MPI_IN_PLACE, row, -1, MPI_INT, MPI_SUM, comm);
#endif
#if MPI_VERSION >= 4
    errors += SAME(MPI_Bcast_c, row, -1, MPI_INT, 0, comm);
#endif
    if (errors < 9)
        bad("only %d wrong numbers are errors", errors);
}

static void handles(MPI_Comm comm)
{
    int row[ROW] = {0}, into[ROW] = {0}, errors = 0;
    MPI_Datatype loose;

    errors += SAME(MPI_Barrier, MPI_COMM_NULL);
    errors += SAME(MPI_Bcast, row, ROW, MPI_INT, 0, MPI_COMM_NULL);
    errors += SAME(MPI_Allreduce, row, into, FEW, MPI_INT, MPI_SUM, MPI_COMM_NULL);
    errors += SAME(MPI_Bcast, row, ROW, MPI_DATATYPE_NULL, 0, comm);
#ifdef OPEN_MPI
    /* MPICH crashes. */
    errors += SAME(MPI_Allreduce, row, into, FEW, MPI_DATATYPE_NULL, MPI_SUM, comm);
#endif
    errors += SAME(MPI_Allreduce, row, into, FEW, MPI_INT, MPI_OP_NULL, comm);
    errors += SAME(MPI_Allreduce, row, into, FEW, MPI_DOUBLE, MPI_BAND, comm);
    /* Not committed: an error at all ranks, and nobody waits for a root that has seen it. */
    MPI_Type_vector(ROW / 2, 1, 2, MPI_INT, &loose);
    errors += SAME(MPI_Bcast, row, 1, loose, 0, comm);
    MPI_Type_free(&loose);
    if (errors < 6)
        bad("only %d wrong handles are errors", errors);
}

/* Datatypes with gaps, and functions of the program. */
static void own(MPI_Comm comm)
{
    int row[2 * ROW], wanted[2 * ROW], into[ROW];
    MPI_Datatype every;
    MPI_Op op;

    MPI_Type_vector(ROW, 1, 2, MPI_INT, &every);
    MPI_Type_commit(&every);
    for (int i = 0; i < 2 * ROW; i++) {
        row[i] = rank == 1 ? i : -i;
        wanted[i] = rank == 1 || i % 2 == 0 ? i : -i;
    }
    if (SAME(MPI_Bcast, row, 1, every, 1, comm))
        bad("a datatype with gaps is an error");
    if (memcmp(row, wanted, sizeof row))
        bad("a datatype with gaps has brought something else");
    MPI_Type_free(&every);
    MPI_Op_create(twice, 0, &op);
    for (int i = 0; i < ROW; i++)
        row[i] = rank + i, into[i] = -1;
    PMPI_Allreduce(row, wanted, ROW, MPI_INT, op, comm);
    if (MPI_Allreduce(row, into, ROW, MPI_INT, op, comm) || memcmp(into, wanted, sizeof into))
        bad("a function of the program's has come to something else");
    MPI_Op_free(&op);
}

static void between(void)
{
    int row[ROW] = {0}, low = rank < ranks / 2, errors = 0, into[FEW];
    MPI_Comm half, inter;

    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? ranks / 2 : 0, 9, &inter);
    MPI_Comm_free(&half);
    errors += SAME(MPI_Barrier, inter);
    for (int i = 0; i < ROW; i++)
        row[i] = rank == 0 ? i : -1;
    errors += SAME(MPI_Bcast, row, ROW, MPI_INT, rank == 0 ? MPI_ROOT : low ? MPI_PROC_NULL : 0,
                   inter);
    if (!low && row[ROW - 1] != ROW - 1)
        bad("from the other side came %d", row[ROW - 1]);
    errors += SAME(MPI_Allreduce, row, into, FEW, MPI_INT, MPI_SUM, inter);
    if (errors)
        bad("%d errors between two groups", errors);
    MPI_Comm_free(&inter);
}

/* What is right, by Weft. */
static void right(MPI_Comm comm)
{
    int row[ROW], sums[FEW] = {rank, 1};

    for (int i = 0; i < ROW; i++)
        row[i] = rank == 0 ? i : -1;
    if (MPI_Barrier(comm) || MPI_Bcast(row, ROW, MPI_INT, 0, comm) ||
        MPI_Allreduce(MPI_IN_PLACE, sums, FEW, MPI_INT, MPI_SUM, comm))
        bad("after %s what is right is an error", last);
    if (row[ROW - 1] != ROW - 1 || sums[0] != ranks * (ranks - 1) / 2 || sums[1] != ranks)
        bad("after %s it comes to %d, %d, %d", last, row[ROW - 1], sums[0], sums[1]);
}

int main(int argc, char **argv)
{
    unsigned long long least = 0, (*done)(void) = dlsym(RTLD_DEFAULT, "weft_mpi_done");
    MPI_Errhandler mine, others;
    MPI_Comm comm;

    if (argc == 3 && !strcmp(argv[1], "--weft"))
        least = strtoull(argv[2], NULL, 10);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_create_errhandler(on_comm, &mine);
    MPI_Comm_create_errhandler(on_others, &others);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, others);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, others);
    void (*const all[])(MPI_Comm) = {nothing, buffers, numbers, handles, own};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        right(comm);
        all[i](comm);
        right(comm);
    }
    if (ranks > 1)
        between();
    if (least && (!done || done() < least))
        bad("Weft has done %llu operations only", done ? done() : 0);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    if (rank == 0)
        printf("odd: good\n");
    return 0;
}
