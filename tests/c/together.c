/* Every call of collective operations and groups, by any number of ranks. */
#include "check.h"

enum { COUNT = 1000, RANKS_MAX = 64 };

#define EACH_TYPE(DO)                                                                              \
    DO(WEFT_I8, int8_t) DO(WEFT_U8, uint8_t) DO(WEFT_I16, int16_t) DO(WEFT_U16, uint16_t)          \
    DO(WEFT_I32, int32_t) DO(WEFT_U32, uint32_t) DO(WEFT_I64, int64_t) DO(WEFT_U64, uint64_t)      \
    DO(WEFT_I128, __int128) DO(WEFT_U128, unsigned __int128) DO(WEFT_F32, float)                   \
    DO(WEFT_F64, double)

/* The sum of rank + i over all ranks, and the greatest. */
#define REDUCTIONS(scalar, type)                                                                   \
    do {                                                                                           \
        static type data[COUNT];                                                                   \
        for (int i = 0; i < COUNT; i++)                                                            \
            data[i] = (type)(rank + i % 5);                                                        \
        GOOD(weft_allreduce(endpoint, WEFT_SUM, data, COUNT, scalar));                             \
        for (int i = 0; i < COUNT; i++)                                                            \
            HOLDS(data[i] == (type)(size * (size - 1) / 2 + size * (uint32_t)(i % 5)));            \
        for (int i = 0; i < COUNT; i++)                                                            \
            data[i] = (type)(rank + i % 5);                                                        \
        GOOD(weft_reduce(endpoint, size - 1, WEFT_MAX, data, COUNT, scalar));                      \
        for (int i = 0; i < COUNT && rank == size - 1; i++)                                        \
            HOLDS(data[i] == (type)(size - 1 + (uint32_t)(i % 5)));                                \
    } while (0);

static void reductions(void) {
    EACH_TYPE(REDUCTIONS)
    uint32_t *from = memory_of(size * COUNT * sizeof *from), block[COUNT];
    for (uint32_t i = 0; i < size * COUNT; i++)
        from[i] = i + rank;
    GOOD(weft_reduce_scatter(endpoint, WEFT_SUM, from, block, COUNT, WEFT_U32));
    for (uint32_t i = 0; i < COUNT; i++)
        HOLDS(block[i] == size * (rank * COUNT + i) + size * (size - 1) / 2);
    free(from);
}

static void moves(void) {
    double *all = memory_of(size * COUNT * sizeof *all), *to = memory_of(size * COUNT * sizeof *to);
    double block[COUNT];
    for (uint32_t root = 0; root < size; root++) {
        for (int i = 0; i < COUNT; i++)
            block[i] = rank == root ? root + 0.5 + i : -1;
        GOOD(weft_broadcast(endpoint, root, block, COUNT, WEFT_F64));
        for (int i = 0; i < COUNT; i++)
            HOLDS(block[i] == root + 0.5 + i);

        for (int i = 0; i < COUNT; i++)
            block[i] = rank * 10000.0 + i;
        GOOD(weft_gather(endpoint, root, block, rank == root ? all : NULL, COUNT, WEFT_F64));
        for (uint32_t i = 0; i < size * COUNT && rank == root; i++)
            HOLDS(all[i] == i / COUNT * 10000.0 + i % COUNT);

        memset(block, 0, sizeof block);
        GOOD(weft_scatter(endpoint, root, rank == root ? all : NULL, block, COUNT, WEFT_F64));
        for (int i = 0; i < COUNT; i++)
            HOLDS(block[i] == rank * 10000.0 + i);
    }
    GOOD(weft_allgather(endpoint, block, to, COUNT, WEFT_F64));
    for (uint32_t i = 0; i < size * COUNT; i++)
        HOLDS(to[i] == i / COUNT * 10000.0 + i % COUNT);
    for (uint32_t i = 0; i < size * COUNT; i++)
        all[i] = rank * 100.0 + i / COUNT;
    GOOD(weft_alltoall(endpoint, all, to, COUNT, WEFT_F64));
    for (uint32_t i = 0; i < size * COUNT; i++)
        HOLDS(to[i] == i / COUNT * 100.0 + rank);

    SAYS(WEFT_COLLECTIVE, "no rank", weft_broadcast(endpoint, size, block, 1, WEFT_F64));
    SAYS(WEFT_COLLECTIVE, "cannot reduce",
         weft_allreduce(endpoint, WEFT_BIT_OR, block, 1, WEFT_F64));
    IS(WEFT_BAD_ARGUMENT, weft_allreduce(endpoint, WEFT_SUM, block, 1, 13));
    IS(WEFT_BAD_ARGUMENT, weft_broadcast(endpoint, 0, block, SIZE_MAX, WEFT_F64));
    IS(WEFT_NULL, weft_broadcast(endpoint, 0, NULL, 1, WEFT_F64));
    free(all);
    free(to);
}

static void barriers(weft_group *group) {
    uint32_t members, own;
    GOOD(weft_group_size(group, &members));
    GOOD(weft_group_rank(group, &own));
    HOLDS(own < members);
    for (int i = 0; i < 20; i++) {
        GOOD(weft_group_barrier(group));
        GOOD(weft_group_arrive(group));
        GOOD(weft_group_wait(group));
        GOOD(weft_group_arrive(group));
        bool over = false;
        while (!over)
            GOOD(weft_group_test(group, &over));
    }
    static unsigned char data[200000];
    for (uint32_t root = 0; root < members; root++) {
        size_t len = root % 2 ? sizeof data : 100;
        memset(data, 0, sizeof data);
        if (own == root)
            paint(data, len, root);
        GOOD(weft_group_broadcast(group, root, data, len));
        HOLDS(painted(data, len, root));
    }
    IS(WEFT_BAD_GROUP, weft_group_broadcast(group, members, data, 1));
}

/* All deliver the same messages in the same order. */
static void order(weft_group *group) {
    enum { EACH = 30 };
    uint32_t count = 0, sender, word[2];
    size_t len;
    bool found = true;
    GOOD(weft_group_try_deliver(group, &found, word, sizeof word, NULL, NULL));
    HOLDS(!found);
    GOOD(weft_group_barrier(group));
    uint64_t *seen = memory_of(size * EACH * sizeof *seen), *theirs;
    for (uint32_t i = 0; i < EACH; i++) {
        word[0] = rank;
        word[1] = i;
        GOOD(weft_group_cast(group, word, sizeof word));
    }
    while (count < size * EACH) {
        if (count % 7 == 3) {
            /* What there is no room for is not lost. */
            SAYS(WEFT_TRUNCATED, "8 bytes", weft_group_deliver(group, word, 7, NULL, &len));
            HOLDS(len == sizeof word);
            IS(WEFT_TRUNCATED, weft_group_try_deliver(group, &found, word, 0, &sender, NULL));
            HOLDS(found);
        }
        if (count % 2) {
            GOOD(weft_group_deliver(group, word, sizeof word, &sender, &len));
        } else {
            do
                GOOD(weft_group_try_deliver(group, &found, word, sizeof word, &sender, &len));
            while (!found);
        }
        HOLDS(len == sizeof word && sender == word[0] && word[1] < EACH);
        seen[count++] = (uint64_t)word[0] << 32 | word[1];
    }
    theirs = memory_of(size * size * EACH * sizeof *theirs);
    GOOD(weft_allgather(endpoint, seen, theirs, size * EACH, WEFT_U64));
    for (uint32_t i = 0; i < size * size * EACH; i++)
        HOLDS(theirs[i] == seen[i % (size * EACH)]);
    free(seen);
    free(theirs);
}

int main(void) {
    begin();
    HOLDS(size <= RANKS_MAX);
    for (int i = 0; i < 20; i++)
        GOOD(weft_barrier(endpoint));
    reductions();
    moves();

    weft_group *all, *some;
    uint32_t ranks[RANKS_MAX], count = 0;
    GOOD(weft_group_all(endpoint, &all));
    barriers(all);
    order(all);
    /* The even ranks, or the odd ones. */
    for (uint32_t i = rank % 2; i < size; i += 2)
        ranks[count++] = i;
    GOOD(weft_group_new(endpoint, ranks, count, &some));
    barriers(some);
    SAYS(WEFT_BUSY, "an endpoint cannot be freed", weft_endpoint_free(endpoint));
    GOOD(weft_group_free(some));
    IS(WEFT_DEAD_HANDLE, weft_group_barrier(some));

    ranks[0] = ranks[1] = rank;
    SAYS(WEFT_BAD_GROUP, "twice", weft_group_new(endpoint, ranks, 2, &some));
    ranks[0] = size;
    SAYS(WEFT_BAD_GROUP, "no rank", weft_group_new(endpoint, ranks, 1, &some));
    IS(WEFT_BAD_GROUP, weft_group_new(endpoint, ranks, 0, &some));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_group_free(all));
    end();
    return 0;
}
