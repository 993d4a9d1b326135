/*
 * Particles: they move, and go to the rank in whose part of space they have come; nobody knows
 * before from whom how many will come.
 *
 *     mpicc -O2 particles.c -o particles -lm
 *     weft mpirun -n 4 --lab nodes=2 -- ./particles weft 100 probe:small consensus:small
 *
 * Space is a ring, and each rank has a piece of it. `probe`: a sum over the ranks tells how many
 * messages will come; each is found by MPI_Probe, and its size with it. `consensus`: messages are
 * sent synchronously and looked for until all ranks have come to a nonblocking barrier (Hoefler,
 * Siebert and Lumsdaine, 2010). About a quarter of the particles leave their rank each step. Small:
 * 64 particles a rank, large: 16384. Where each must be at the end is known, in whole numbers.
 */
#include "programs.h"

#define PIECE (1L << 20)

enum { PROBE, CONSENSUS };

struct particle {
    long id, place, speed;
};
#define LONGS ((int)(sizeof(struct particle) / sizeof(long)))

static int mode, each, held, step;
static struct particle *here, **leaving;
static int *leavers, *flags;
static MPI_Request *sends;

static long first_place(long id)
{
    return id * (PIECE / each) % (ranks * PIECE);
}

/* Most go at most half a piece in a step, some go far. */
static long speed(long id)
{
    long some = (id + 1) * 40503 % PIECE - PIECE / 2;
    return id % 16 == 0 ? 3 * some : some;
}

static long moved(long place, long by)
{
    long space = ranks * PIECE;
    return ((place + by) % space + space) % space;
}

static void start(void)
{
    held = each;
    for (int i = 0; i < each; i++) {
        long id = (long)rank * each + i;
        here[i] = (struct particle){id, first_place(id), speed(id)};
    }
}

/* Moves all, and takes those that leave out. */
static void move(void)
{
    int stay = 0;

    memset(leavers, 0, ranks * sizeof *leavers);
    for (int i = 0; i < held; i++) {
        struct particle p = here[i];
        p.place = moved(p.place, p.speed);
        int to = (int)(p.place / PIECE);
        if (to == rank)
            here[stay++] = p;
        else
            leaving[to][leavers[to]++] = p;
    }
    held = stay;
}

static void receive(const MPI_Status *status)
{
    int longs;

    MPI_Get_count(status, MPI_LONG, &longs);
    MPI_Recv(here + held, longs, MPI_LONG, status->MPI_SOURCE, status->MPI_TAG, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    held += longs / LONGS;
}

static int send_all(int synchronous)
{
    int sent = 0;

    for (int to = 0; to < ranks; to++)
        if (leavers[to])
            (synchronous ? MPI_Issend : MPI_Isend)(leaving[to], leavers[to] * LONGS, MPI_LONG, to,
                                                   step % 2, MPI_COMM_WORLD, &sends[sent++]);
    return sent;
}

static void by_probe(void)
{
    int coming, sent;
    MPI_Status status;

    for (int to = 0; to < ranks; to++)
        flags[to] = leavers[to] > 0;
    MPI_Reduce_scatter_block(flags, &coming, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    sent = send_all(0);
    while (coming-- > 0) {
        MPI_Probe(MPI_ANY_SOURCE, step % 2, MPI_COMM_WORLD, &status);
        receive(&status);
    }
    MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE);
}

/* Who has sent all it had enters the barrier; when all have, no message is on its way. */
static void by_consensus(void)
{
    int sent = send_all(1), entered = 0, over = 0, found, taken;
    MPI_Request barrier;
    MPI_Status status;

    while (!over) {
        MPI_Iprobe(MPI_ANY_SOURCE, step % 2, MPI_COMM_WORLD, &found, &status);
        if (found)
            receive(&status);
        if (entered) {
            MPI_Test(&barrier, &over, MPI_STATUS_IGNORE);
            continue;
        }
        MPI_Testall(sent, sends, &taken, MPI_STATUSES_IGNORE);
        if (taken) {
            MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
            entered = 1;
        }
    }
}

static void block(void)
{
    for (step = 0; step < steps; step++) {
        move();
        IN_MPI((mode == CONSENSUS ? by_consensus : by_probe)());
    }
}

static void check(void)
{
    long mine[2] = {held, 0}, all[2], count = (long)ranks * each;

    if (held > 0)
        SPOIL(here[held / 2].place);
    for (int i = 0; i < held; i++) {
        long right = moved(first_place(here[i].id), steps * speed(here[i].id));
        if (here[i].place != right || right / PIECE != rank)
            wrong("particle %ld is at %ld, not %ld", here[i].id, here[i].place, right);
        mine[1] += here[i].id;
    }
    MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (all[0] != count || all[1] != count * (count - 1) / 2)
        wrong("there are %ld particles of %ld, their numbers add up to %ld", all[0], count, all[1]);
}

static void run(const struct word *word)
{
    mode = word->mode;
    each = word->large ? 16384 : 64;
    here = memory((size_t)each * ranks * sizeof *here);
    leaving = memory(ranks * sizeof *leaving);
    for (int to = 0; to < ranks; to++)
        leaving[to] = memory((size_t)each * ranks * sizeof **leaving);
    leavers = memory(ranks * sizeof *leavers);
    flags = memory(ranks * sizeof *flags);
    sends = memory(ranks * sizeof(MPI_Request));
    struct plan plan = {.bytes = each / 4 * sizeof *here, .steps = 10, .start = start,
                        .block = block, .check = check};
    measure(word, &plan);
    for (int to = 0; to < ranks; to++)
        free(leaving[to]);
    free(leaving);
    free(here);
    free(leavers);
    free(flags);
    free(sends);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"probe", "consensus", NULL};
    static const struct kernel own = {"particles", modes, two_sizes, NULL, run};
    return program(argc, argv, &own);
}
