/*
 * Pairs: k pairs of ranks exchange messages, all at once.
 *
 *     mpicc -O2 pairs.c -o pairs -lm
 *     weft mpirun -n 4 --lab nodes=2 -- ./pairs weft 100 both:small both:large turn:small
 *
 * `both`: the two ranks of a pair send to each other at the same time (MPI_Sendrecv); `turn`: one
 * after the other. Ranks of the first half are paired with those of the second, so that pairs cross
 * from node to node; an odd rank out idles. A step is one exchange. Small: 8 bytes; large: 256 KiB.
 * The first and the last word of each message tell who sent it when; at the end of a block, all do.
 */
#include "programs.h"

enum { BOTH, TURN };
static int words, mode, peer;
static long *out, *in, blocks;

static long content(int from, int exchange, int word)
{
    return blocks * 7919L + exchange * 1000003L + from * 7L + word;
}

static void start(void)
{
    blocks++;
    for (int w = 0; w < words; w++)
        out[w] = content(rank, steps - 1, w);
}

static void send_and_receive(void)
{
    if (mode == BOTH) {
        IN_MPI(MPI_Sendrecv(out, words, MPI_LONG, peer, 1, in, words, MPI_LONG, peer, 1,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (rank < ranks / 2) {
        IN_MPI(MPI_Send(out, words, MPI_LONG, peer, 1, MPI_COMM_WORLD));
        IN_MPI(MPI_Recv(in, words, MPI_LONG, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        IN_MPI(MPI_Recv(in, words, MPI_LONG, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        IN_MPI(MPI_Send(out, words, MPI_LONG, peer, 1, MPI_COMM_WORLD));
    }
}

static void is_right(int exchange, int word)
{
    if (in[word] != content(peer, exchange, word))
        wrong("word %d of exchange %d with rank %d is %ld, not %ld", word, exchange, peer,
              in[word], content(peer, exchange, word));
}

static void block(void)
{
    if (peer == MPI_PROC_NULL)
        return;
    for (int i = 0; i < steps; i++) {
        out[0] = content(rank, i, 0);
        out[words - 1] = content(rank, i, words - 1);
        send_and_receive();
        is_right(i, 0);
        is_right(i, words - 1);
    }
}

static void check(void)
{
    if (peer == MPI_PROC_NULL)
        return;
    SPOIL(in[words / 2]);
    for (int w = 0; w < words; w++)
        is_right(steps - 1, w);
}

static void run(const struct word *word)
{
    mode = word->mode;
    words = word->large ? 32768 : 1;
    peer = partner();
    out = memory(words * sizeof *out);
    in = memory(words * sizeof *in);
    struct plan plan = {.bytes = words * sizeof *out, .steps = 20, .start = start,
                        .block = block, .check = check};
    measure(word, &plan);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"both", "turn", NULL};
    static const struct kernel own = {"pairs", modes, two_sizes, NULL, run};
    return program(argc, argv, &own);
}
