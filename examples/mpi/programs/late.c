/*
 * Late: many messages are sent to a receiver that comes late.
 *
 *     mpicc -O2 late.c -o late -lm
 *     weft mpirun -n 2 --lab nodes=2 -- ./late weft 100 order:small reverse:small
 *
 * In each step a rank of the first half sends its messages to one of the second half and waits for
 * an answer. The receiver computes for 200 us, then receives them: in the order in which they were
 * sent, or (`reverse`) by their tags the other way round, so that each is looked for among all that
 * wait. Small: 64 messages of 64 bytes; large: 16 of 64 KiB.
 */
#include "programs.h"

#define LATE_US 200
#define MESSAGES_MAX 64

enum { ORDER, REVERSE };
static int mode, messages, words, peer;
static long *buffer, first;
static MPI_Request all[MESSAGES_MAX];

static long *message(int number)
{
    return buffer + (size_t)number * words;
}

static long content(int step, int number, int word)
{
    return first + step * 1000003L + number * 8209L + word;
}

static void start(void)
{
    first++;
}

/* Begin and end of each message tell which it is; the rest stays from block to block. */
static void send(int step)
{
    long answer;

    for (int m = 0; m < messages; m++) {
        message(m)[0] = content(step, m, 0);
        message(m)[words - 1] = content(step, m, words - 1);
        IN_MPI(MPI_Isend(message(m), words, MPI_LONG, peer, m, MPI_COMM_WORLD, &all[m]));
    }
    IN_MPI(MPI_Waitall(messages, all, MPI_STATUSES_IGNORE));
    IN_MPI(MPI_Recv(&answer, 1, MPI_LONG, peer, messages, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (answer != content(step, messages, 0))
        wrong("the answer of step %d is %ld", step, answer);
}

static void is_right(int step, int number, int word)
{
    if (message(number)[word] != content(step, number, word))
        wrong("word %d of message %d is %ld, not %ld", word, number, message(number)[word],
              content(step, number, word));
}

static void receive(int step)
{
    long answer = content(step, messages, 0);

    compute(LATE_US);
    for (int i = 0; i < messages; i++) {
        int m = mode == REVERSE ? messages - 1 - i : i;
        IN_MPI(MPI_Recv(message(m), words, MPI_LONG, peer, m, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    for (int m = 0; m < messages; m++) {
        is_right(step, m, 0);
        is_right(step, m, words - 1);
    }
    IN_MPI(MPI_Send(&answer, 1, MPI_LONG, peer, messages, MPI_COMM_WORLD));
}

static void block(void)
{
    for (int step = 0; step < steps && peer != MPI_PROC_NULL; step++) {
        if (rank < ranks / 2)
            send(step);
        else
            receive(step);
    }
}

/* The words between tell place and message, and are the same in every step. */
static void check(void)
{
    if (peer == MPI_PROC_NULL || rank < ranks / 2)
        return;
    SPOIL(message(messages - 1)[words - 1]);
    for (int m = 0; m < messages; m++) {
        is_right(steps - 1, m, words - 1);
        for (int w = 1; w < words - 1; w++)
            if (message(m)[w] != m * 8209L + w)
                wrong("word %d of message %d is %ld", w, m, message(m)[w]);
    }
}

static void run(const struct word *word)
{
    mode = word->mode;
    messages = word->large ? 16 : MESSAGES_MAX;
    words = word->large ? 8192 : 8;
    peer = partner();
    buffer = memory((size_t)messages * words * sizeof *buffer);
    for (int m = 0; m < messages && rank < ranks / 2; m++)
        for (int w = 1; w < words - 1; w++)
            message(m)[w] = m * 8209L + w;
    struct plan plan = {.bytes = words * sizeof *buffer, .steps = 10, .start = start,
                        .block = block, .check = check};
    measure(word, &plan);
    free(buffer);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"order", "reverse", NULL};
    static const struct kernel own = {"late", modes, two_sizes, NULL, run};
    return program(argc, argv, &own);
}
