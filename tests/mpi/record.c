/*
 * Writes down what an MPI program of two ranks does, for `weft sim tune` to do again: preloaded, by
 * scripts/record-load.sh. A line for each thing: the rank, and `c` and the nanoseconds of its
 * processor that it has computed, `s` and bytes that it has sent to the other, or `r` and bytes
 * that it has waited for. Collective operations are what each rank must at least send and receive.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINES = 1 << 20, REQUESTS = 256 };
static struct line {
    char what;
    long long number;
} lines[LINES];
static int count, rank, is_on;
static struct timespec since;
/* Receives that go on, and their bytes. */
static struct pending {
    MPI_Request request;
    long long bytes;
} pending[REQUESTS];

static void note(char what, long long number)
{
    if (is_on && number > 0 && count < LINES)
        lines[count++] = (struct line){what, number};
}

/* What lies between calls is the program's own. */
static void enter(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    note('c', (now.tv_sec - since.tv_sec) * 1000000000LL + now.tv_nsec - since.tv_nsec);
    is_on = 1;
}

static int leave(int result)
{
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &since);
    return result;
}

static long long bytes_of(int items, MPI_Datatype type)
{
    int size;
    PMPI_Type_size(type, &size);
    return (long long)items * size;
}

/* Whether a rank of a communicator is the other process. */
static int is_other(int peer, MPI_Comm comm)
{
    int me, size;
    PMPI_Comm_rank(comm, &me);
    PMPI_Comm_size(comm, &size);
    return size == 2 && peer != me && peer != MPI_PROC_NULL;
}

static void receives(MPI_Request request, long long bytes)
{
    for (int i = 0; i < REQUESTS; i++)
        if (!pending[i].bytes) {
            pending[i] = (struct pending){request, bytes};
            return;
        }
}

static long long awaited(int n, const MPI_Request *requests)
{
    long long all = 0;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < REQUESTS; i++)
            if (pending[i].bytes && pending[i].request == requests[r]) {
                all += pending[i].bytes;
                pending[i].bytes = 0;
                break;
            }
    return all;
}

int MPI_Send(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c)
{
    enter();
    note('s', is_other(to, c) ? bytes_of(n, t) : 0);
    return leave(PMPI_Send(b, n, t, to, tag, c));
}

int MPI_Recv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s)
{
    enter();
    note('r', is_other(from, c) ? bytes_of(n, t) : 0);
    return leave(PMPI_Recv(b, n, t, from, tag, c, s));
}

int MPI_Isend(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *q)
{
    enter();
    note('s', is_other(to, c) ? bytes_of(n, t) : 0);
    return leave(PMPI_Isend(b, n, t, to, tag, c, q));
}

int MPI_Irecv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *q)
{
    enter();
    int result = PMPI_Irecv(b, n, t, from, tag, c, q);
    if (is_other(from, c))
        receives(*q, bytes_of(n, t));
    return leave(result);
}

int MPI_Wait(MPI_Request *q, MPI_Status *s)
{
    enter();
    note('r', awaited(1, q));
    return leave(PMPI_Wait(q, s));
}

int MPI_Waitall(int n, MPI_Request q[], MPI_Status s[])
{
    enter();
    note('r', awaited(n, q));
    return leave(PMPI_Waitall(n, q, s));
}

int MPI_Sendrecv(const void *b, int n, MPI_Datatype t, int to, int tag, void *rb, int rn,
                 MPI_Datatype rt, int from, int rtag, MPI_Comm c, MPI_Status *s)
{
    enter();
    note('s', is_other(to, c) ? bytes_of(n, t) : 0);
    note('r', is_other(from, c) ? bytes_of(rn, rt) : 0);
    return leave(PMPI_Sendrecv(b, n, t, to, tag, rb, rn, rt, from, rtag, c, s));
}

/* An exchange of so many bytes each way. */
static void exchange(long long out, long long in, MPI_Comm c)
{
    int me;
    enter();
    PMPI_Comm_rank(c, &me);
    if (!is_other(1 - me, c))
        return;
    note('s', out);
    note('r', in);
}

int MPI_Barrier(MPI_Comm c)
{
    exchange(4, 4, c);
    return leave(PMPI_Barrier(c));
}

int MPI_Allreduce(const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
{
    exchange(bytes_of(n, t), bytes_of(n, t), c);
    return leave(PMPI_Allreduce(b, rb, n, t, op, c));
}

int MPI_Alltoall(const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt,
                 MPI_Comm c)
{
    exchange(bytes_of(n, t), bytes_of(rn, rt), c);
    return leave(PMPI_Alltoall(b, n, t, rb, rn, rt, c));
}

int MPI_Alltoallv(const void *b, const int n[], const int at[], MPI_Datatype t, void *rb,
                  const int rn[], const int rat[], MPI_Datatype rt, MPI_Comm c)
{
    int other;
    PMPI_Comm_rank(c, &other);
    other = 1 - other;
    exchange(bytes_of(n[other & 1], t), bytes_of(rn[other & 1], rt), c);
    return leave(PMPI_Alltoallv(b, n, at, t, rb, rn, rat, rt, c));
}

int MPI_Bcast(void *b, int n, MPI_Datatype t, int root, MPI_Comm c)
{
    int me;
    PMPI_Comm_rank(c, &me);
    exchange(me == root ? bytes_of(n, t) : 0, me == root ? 0 : bytes_of(n, t), c);
    return leave(PMPI_Bcast(b, n, t, root, c));
}

int MPI_Finalize(void)
{
    char name[4096];
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *base = getenv("RECORD_TO");
    snprintf(name, sizeof name, "%s.%d", base ? base : "record", rank);
    FILE *to = fopen(name, "w");
    for (int i = 0; to && i < count; i++)
        fprintf(to, "%d %c %lld\n", rank, lines[i].what, lines[i].number);
    if (to)
        fclose(to);
    return PMPI_Finalize();
}
