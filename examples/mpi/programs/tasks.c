/*
 * Tasks: a master hands out tasks, workers do them and ask for more.
 *
 *     mpicc -O2 tasks.c -o tasks -lm
 *     weft mpirun -n 4 -- ./tasks weft 100
 *
 * Rank 0 waits for a result from any source, checks it, and answers with the next task. A worker
 * computes for 50 us on each. A step is one task, whoever did it: one worker takes 50 us and what
 * the messages cost. Small: tasks and results of 8 bytes; large: of 64 KiB.
 */
#include "programs.h"

#define TASKS_EACH 20
#define TASK_US 50

enum { TASK = 1, END };
static int words, *times_done;
static long *buffer;

static long content(int task, int word)
{
    return task + 31L * word;
}

static void hand_out(int task, int worker)
{
    for (int w = 0; w < words; w++)
        buffer[w] = content(task, w);
    IN_MPI(MPI_Send(buffer, words, MPI_LONG, worker, TASK, MPI_COMM_WORLD));
}

/* The first word of a result tells the task. */
static void take_in(void)
{
    int task = (int)(buffer[0] / 3);

    if (task < 0 || task >= steps)
        wrong("a result is of no task: %ld", buffer[0]);
    for (int w = 0; w < words; w++)
        if (buffer[w] != 3 * content(task, w))
            wrong("word %d of task %d became %ld", w, task, buffer[w]);
    times_done[task]++;
}

static void master(void)
{
    int next = 0;

    for (int worker = 1; worker < ranks; worker++)
        hand_out(next++, worker);
    for (int done = 0; done < steps; done++) {
        MPI_Status status;
        IN_MPI(MPI_Recv(buffer, words, MPI_LONG, MPI_ANY_SOURCE, TASK, MPI_COMM_WORLD, &status));
        take_in();
        if (next < steps)
            hand_out(next++, status.MPI_SOURCE);
        else
            IN_MPI(MPI_Send(NULL, 0, MPI_LONG, status.MPI_SOURCE, END, MPI_COMM_WORLD));
    }
}

static void worker(void)
{
    MPI_Status status;

    for (;;) {
        IN_MPI(MPI_Recv(buffer, words, MPI_LONG, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        if (status.MPI_TAG == END)
            return;
        compute(TASK_US);
        for (int w = 0; w < words; w++)
            buffer[w] *= 3;
        IN_MPI(MPI_Send(buffer, words, MPI_LONG, 0, TASK, MPI_COMM_WORLD));
    }
}

static void start(void)
{
    memset(times_done, 0, steps * sizeof *times_done);
}

static void block(void)
{
    if (rank == 0)
        master();
    else
        worker();
}

static void check(void)
{
    if (rank != 0)
        return;
    SPOIL(times_done[steps - 1]);
    for (int task = 0; task < steps; task++)
        if (times_done[task] != 1)
            wrong("task %d was done %d times", task, times_done[task]);
}

static void run(const struct word *word)
{
    words = word->large ? 8192 : 1;
    int tasks = TASKS_EACH * (ranks - 1);
    if (ranks < 2)
        wrong("there are no workers");
    times_done = memory(tasks * sizeof *times_done);
    buffer = memory(words * sizeof *buffer);
    struct plan plan = {.bytes = words * sizeof *buffer, .steps = tasks, .few = 2 * (ranks - 1),
                        .start = start, .block = block, .check = check};
    measure(word, &plan);
    free(buffer);
    free(times_done);
}

int main(int argc, char **argv)
{
    static const struct kernel own = {"tasks", one_mode, two_sizes, NULL, run};
    return program(argc, argv, &own);
}
