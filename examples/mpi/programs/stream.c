/*
 * Stream: a producer sends now and then and computes between, a consumer waits for each message.
 *
 *     mpicc -O2 stream.c -o stream -lm
 *     weft mpirun -n 2 --lab nodes=2 -- ./stream weft 100 8@30 busy:1320@200 40x8@1000
 *
 * A size BYTES@GAP is messages of so many bytes (8 or more), GAP microseconds of computation after
 * each; COUNTxBYTES@GAP is bursts of so many messages, and the last of each is the one that is
 * measured. Small is 8@30, large 16384@100. The producer makes no MPI call but these sends, not
 * even after the last one before it has computed. The consumer waits in MPI_Recv; with `busy:` it
 * first computes for most of the gap. What is measured is the delay of each message, from just
 * before the send to just after the receive: on one machine by the one clock, between machines by
 * the offset of their clocks, known as well as half of the shortest time there and back.
 * Ranks of the first half send, each to one of the second half.
 */
#include "programs.h"

#define MESSAGES_MAX 40
#define EXCHANGES 200

enum { WAIT, BUSY };
static int burst, bytes, gap_us, mode, sequence;
static long *buffer;
static double sent_ns[MESSAGES_MAX], seen_ns[MESSAGES_MAX], offset_ns;

/* Takes what is to be sent from a size; whether it means something. */
static int knows(const char *size)
{
    int end = 0;

    if (sscanf(size, "%dx%d@%d%n", &burst, &bytes, &gap_us, &end) != 3) {
        burst = 1;
        if (sscanf(size, "%d@%d%n", &bytes, &gap_us, &end) != 2)
            return 0;
    }
    return !size[end] && burst >= 1 && bytes >= 8 && gap_us >= 0;
}

/* How far the consumer's clock is ahead of the producer's: 0 if it may be that none is. */
static void compare_clocks(int producer, int peer)
{
    double shortest = 1e18, theirs;

    offset_ns = 0;
    for (int i = 0; i < EXCHANGES; i++) {
        double before = now_ns();
        if (producer) {
            MPI_Send(&before, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD);
            MPI_Recv(&theirs, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            double after = now_ns();
            if (after - before < shortest) {
                shortest = after - before;
                offset_ns = theirs - (before + after) / 2;
            }
        } else {
            MPI_Recv(&theirs, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            theirs = now_ns();
            MPI_Send(&theirs, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD);
        }
    }
    if (offset_ns < shortest / 2 && offset_ns > -shortest / 2)
        offset_ns = 0;
    if (producer)
        MPI_Send(&offset_ns, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(&offset_ns, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* What a message holds, but for its first word, the time at which it was sent. */
static long content(int message, int word)
{
    return (long)message * 1000003 + word;
}

static void produce(int peer)
{
    for (int i = 0; i < steps; i++) {
        for (int w = 1; w < bytes / 8; w++)
            buffer[w] = content(sequence + i, w);
        for (int n = 0; n < burst; n++) {
            sent_ns[i] = now_ns();
            memcpy(buffer, &sent_ns[i], sizeof *buffer);
            IN_MPI(MPI_Send(buffer, bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD));
        }
        compute(gap_us);
    }
}

static void consume(int peer)
{
    for (int i = 0; i < steps; i++) {
        for (int n = 0; n < burst; n++)
            IN_MPI(MPI_Recv(buffer, bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        double came_ns = now_ns();
        memcpy(&seen_ns[i], buffer, sizeof *buffer);
        sample((came_ns - seen_ns[i] - offset_ns) / 1000);
        for (int w = 1; w < bytes / 8; w++)
            if (buffer[w] != content(sequence + i, w))
                wrong("word %d of message %d is %ld", w, i, buffer[w]);
        if (mode == BUSY)
            compute(gap_us * 0.8);
    }
}

static void start(void)
{
    sequence += steps;
}

static void block(void)
{
    int peer = partner();

    if (rank < ranks / 2)
        produce(peer);
    else if (peer != MPI_PROC_NULL)
        consume(peer);
}

/* The times that came are those that were sent, in that order. */
static void check(void)
{
    int peer = partner();

    if (rank < ranks / 2) {
        MPI_Send(sent_ns, steps, MPI_DOUBLE, peer, 3, MPI_COMM_WORLD);
    } else if (peer != MPI_PROC_NULL) {
        MPI_Recv(sent_ns, steps, MPI_DOUBLE, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SPOIL(seen_ns[steps - 1]);
        for (int i = 0; i < steps; i++)
            if (seen_ns[i] != sent_ns[i])
                wrong("message %d was sent at %.0f ns, and says %.0f", i, sent_ns[i], seen_ns[i]);
    }
}

static void run(const struct word *word)
{
    if (!knows(word->size))
        knows(word->large ? "16384@100" : "8@30");
    mode = word->mode;
    buffer = memory(bytes);
    if (partner() != MPI_PROC_NULL)
        compare_clocks(rank < ranks / 2, partner());
    struct plan plan = {.bytes = bytes, .steps = MESSAGES_MAX, .few = 10,
                        .own_samples = 1, .start = start, .block = block, .check = check};
    measure(word, &plan);
    free(buffer);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"", "busy", NULL};
    static const char *const sizes[] = {"8@30",   "1320@200",  "16384@100",
                                        "8@1000", "40x8@1000", NULL};
    static const struct kernel own = {"stream", modes, sizes, knows, run};
    return program(argc, argv, &own);
}
