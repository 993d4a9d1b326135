/* Every call of joined buffers, by any number of ranks: each has an end with the next rank, and one
 * with the rank before it. With two ranks these are two pairs. */
#include <pthread.h>

#include "check.h"

enum { LEN = 400000, HALF = LEN / 2, ROUNDS = 20 };

static weft_joined *to_next, *to_before;
static uint32_t next, before;

/* Both ends of a pair say the same number: that of the rank whose next one is the other. */
static void *join_next(void *none) {
    GOOD(weft_join(endpoint, next, rank, LEN, &to_next));
    return none;
}

static void join_both(void) {
    pthread_t thread;
    /* A rank's two ends are joined side by side, as its neighbours do in any order. */
    HOLDS(pthread_create(&thread, NULL, join_next, NULL) == 0);
    GOOD(weft_join(endpoint, before, before, LEN + 8, &to_before));
    HOLDS(pthread_join(thread, NULL) == 0);
    uint64_t len;
    GOOD(weft_joined_peer_len(to_next, &len));
    HOLDS(len == LEN + 8);
    GOOD(weft_joined_peer_len(to_before, &len));
    HOLDS(len == LEN);
}

/* A flag is seen after all that was written before it. */
static void written(void) {
    static const size_t lens[] = {1, 0, 700, 20000, 70000, HALF};
    static unsigned char out[HALF], in[HALF];
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t len = lens[round % (sizeof lens / sizeof *lens)], middle = len / 3;
        uint64_t value;
        paint(out, len, rank + round);
        GOOD(weft_joined_fill(to_next, HALF, out, len));
        GOOD(weft_joined_write(to_next, HALF, 3, middle));
        GOOD(weft_joined_write(to_next, HALF + middle, 3 + middle, len - middle));
        GOOD(weft_joined_flag(to_next, round));
        GOOD(weft_joined_wait_flag(to_before, &value));
        HOLDS(value == round);
        memset(in, 0, len);
        GOOD(weft_joined_look(to_before, 3, in, len));
        HOLDS(painted(in, len, before + round));
        /* Back: the next round writes over it. */
        GOOD(weft_joined_flag(to_before, 1000 + round));
        GOOD(weft_joined_wait_flag_timeout(to_next, UINT64_MAX, &value));
        HOLDS(value == 1000 + round);
    }
}

static void flags(void) {
    uint64_t value = 7;
    bool found = true;
    GOOD(weft_joined_try_flag(to_before, &found, &value));
    HOLDS(!found && value == 7);
    IS(WEFT_TIMED_OUT, weft_joined_wait_flag_timeout(to_before, 2000000, &value));
    GOOD(weft_barrier(endpoint));
    for (uint64_t i = 0; i < 200; i++)
        GOOD(weft_joined_flag(to_next, i));
    GOOD(weft_joined_flush(to_next));
    for (uint64_t i = 0; i < 200; i++) {
        do
            GOOD(weft_joined_try_flag(to_before, &found, &value));
        while (!found);
        HOLDS(value == i);
    }
    GOOD(weft_barrier(endpoint));
}

/* Threads share an end: each writes parts of its own, long enough that a flag could overtake them,
 * and its flag for each comes after it. */
enum { THREADS = 2, PARTS = 2, PART = 100000 };

static pthread_barrier_t all_written;

static void *write_parts(void *first_at) {
    uint64_t first = *(uint64_t *)first_at;
    for (uint64_t part = first; part < first + PARTS; part++) {
        GOOD(weft_joined_write(to_next, part * PART, part * PART, PART));
        /* All flags come while all writes are under way. */
        pthread_barrier_wait(&all_written);
        GOOD(weft_joined_flag(to_next, part));
    }
    return NULL;
}

static void shared(void) {
    static unsigned char bytes[PART];
    uint64_t first[THREADS];
    pthread_t threads[THREADS];
    for (uint64_t part = 0; part < THREADS * PARTS; part++) {
        memset(bytes, 0, PART);
        GOOD(weft_joined_fill(to_before, part * PART, bytes, PART));
        paint(bytes, PART, rank + (unsigned)part);
        GOOD(weft_joined_fill(to_next, part * PART, bytes, PART));
    }
    HOLDS(pthread_barrier_init(&all_written, NULL, THREADS) == 0);
    GOOD(weft_barrier(endpoint));
    for (unsigned i = 0; i < THREADS; i++) {
        first[i] = i * PARTS;
        HOLDS(pthread_create(&threads[i], NULL, write_parts, &first[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS * PARTS; i++) {
        uint64_t part;
        GOOD(weft_joined_wait_flag(to_before, &part));
        HOLDS(part < THREADS * PARTS);
        GOOD(weft_joined_look(to_before, part * PART, bytes, PART));
        HOLDS(painted(bytes, PART, before + (unsigned)part));
    }
    for (unsigned i = 0; i < THREADS; i++)
        HOLDS(pthread_join(threads[i], NULL) == 0);
    GOOD(weft_barrier(endpoint));
}

static void refused(void) {
    char byte = 0;
    uint64_t value;
    bool found;
    SAYS(WEFT_REGION, "not all inside", weft_joined_write(to_next, LEN - 1, 0, 2));
    SAYS(WEFT_REGION, "not all inside", weft_joined_write(to_before, 0, LEN - 1, 2));
    IS(WEFT_REGION, weft_joined_write(to_next, UINT64_MAX, 0, 2));
    IS(WEFT_REGION, weft_joined_write(to_next, 0, 0, SIZE_MAX));
    IS(WEFT_REGION, weft_joined_fill(to_next, LEN, &byte, 1));
    IS(WEFT_REGION, weft_joined_look(to_next, LEN, &byte, 1));
    IS(WEFT_NULL, weft_joined_fill(to_next, 0, NULL, 1));
    IS(WEFT_NULL, weft_joined_look(to_next, 0, NULL, 1));
    IS(WEFT_NULL, weft_joined_try_flag(to_next, NULL, &value));
    IS(WEFT_NULL, weft_joined_try_flag(to_next, &found, NULL));
    IS(WEFT_NULL, weft_joined_wait_flag(to_next, NULL));
    IS(WEFT_NULL, weft_joined_peer_len(to_next, NULL));
    IS(WEFT_NULL, weft_join(endpoint, rank, 9, 8, NULL));
    weft_joined *none = NULL;
    IS(WEFT_BAD_ARGUMENT, weft_join(endpoint, rank, 9, SIZE_MAX, &none));
    IS(WEFT_UNKNOWN_PEER, weft_join(endpoint, size, 9, 8, &none));
    IS(WEFT_DEAD_HANDLE, weft_join((weft_endpoint *)to_next, rank, 9, 8, &none));
    HOLDS(none == NULL);
    SAYS(WEFT_DEAD_HANDLE, "a joined buffer is null", weft_joined_flag(NULL, 1));
    IS(WEFT_DEAD_HANDLE, weft_joined_flag((weft_joined *)endpoint, 1));
    SAYS(WEFT_BUSY, "an endpoint cannot be freed", weft_endpoint_free(endpoint));
    GOOD(weft_barrier(endpoint));
}

/* One that is freed is written no more. */
static void freed(void) {
    GOOD(weft_joined_free(to_before));
    IS(WEFT_DEAD_HANDLE, weft_joined_free(to_before));
    IS(WEFT_DEAD_HANDLE, weft_joined_write(to_before, 0, 0, 1));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_joined_write(to_next, 0, 0, 1));
    SAYS(WEFT_REFUSED, "dropped", weft_joined_flush(to_next));
    GOOD(weft_joined_free(to_next));
    GOOD(weft_barrier(endpoint));
}

int main(void) {
    begin();
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    join_both();
    written();
    flags();
    shared();
    refused();
    freed();
    end();
    return 0;
}
