/* What the phases of the stress program share: random numbers that all ranks draw alike, payloads
 * that tell where they come from, and a way to fail. */
#ifndef STRESS_H
#define STRESS_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

extern int rank, ranks;
/* Bytes of the largest message, and of all messages of a rank in one phase. */
extern size_t largest, budget;
/* Whether the library lets several threads call it. */
extern int threads_work;

/* The next number of a generator; a plan that all ranks make from the same state is the same. */
uint64_t draw(uint64_t *state);
/* A number from 0 up to but not with `limit`. */
uint64_t below(uint64_t *state, uint64_t limit);
/* A size up to `most`, small ones as likely as large ones of each power of two. */
size_t any_size(uint64_t *state, size_t most);

/* Memory of at least one byte. */
void *room(size_t bytes);
/* Fills memory with a payload that `key` names. */
void fill(void *at, size_t bytes, uint64_t key);
/* Checks it, and fails with what it was if it differs. */
void check(const void *at, size_t bytes, uint64_t key, const char *what);
/* Says what is wrong, with seed, round and phase, and ends the job. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Calls `fail` unless it holds. */
#define EXPECT(holds, ...) ((holds) ? (void)0 : fail(__VA_ARGS__))

/* A phase: draws its plan from `state`, the same on all ranks of `comm`. */
typedef void phase(uint64_t state, MPI_Comm comm);
phase messages, probes, cancels, persistent, partitioned, shapes, both_ways, flood;
phase windows, locks, counters, collectives, splits, threads;

#endif
