/* Phases of the stress program: memory that others reach, collectives, communicators, threads. */
#define _GNU_SOURCE
#include "stress.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Puts and gets between fences, and between post, start, complete and wait. */
void windows(uint64_t state, MPI_Comm comm)
{
    size_t each = 1 + any_size(&state, largest / 16), bytes = each * (size_t)ranks;
    int times = 1 + (int)below(&state, 4);
    char *base, *out = room(each), *in = room(each);
    MPI_Win window;
    MPI_Group group;

    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, comm, &base, &window);
    MPI_Comm_group(comm, &group);
    for (int t = 0; t < times; t++) {
        uint64_t key = draw(&state);
        int step = (int)below(&state, (uint64_t)ranks), fence = (int)below(&state, 2);
        int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
        memset(base, 0, bytes);
        fill(out, each, key + (uint64_t)rank);
        if (fence) {
            MPI_Win_fence(0, window);
            MPI_Put(out, (int)each, MPI_BYTE, to, (MPI_Aint)((size_t)rank * each), (int)each,
                    MPI_BYTE, window);
            MPI_Win_fence(0, window);
            check(base + (size_t)from * each, each, key + (uint64_t)from, "put between fences");
            MPI_Win_fence(0, window);
            MPI_Get(in, (int)each, MPI_BYTE, to, (MPI_Aint)((size_t)rank * each), (int)each,
                    MPI_BYTE, window);
            MPI_Win_fence(0, window);
            check(in, each, key + (uint64_t)rank, "got between fences");
        } else {
            MPI_Group target, origin;
            MPI_Group_incl(group, 1, &to, &target);
            MPI_Group_incl(group, 1, &from, &origin);
            MPI_Win_post(origin, 0, window);
            MPI_Win_start(target, 0, window);
            MPI_Put(out, (int)each, MPI_BYTE, to, (MPI_Aint)((size_t)rank * each), (int)each,
                    MPI_BYTE, window);
            MPI_Win_complete(window);
            MPI_Win_wait(window);
            check(base + (size_t)from * each, each, key + (uint64_t)from, "put with a post");
            MPI_Group_free(&target);
            MPI_Group_free(&origin);
        }
        MPI_Barrier(comm);
    }
    MPI_Group_free(&group);
    MPI_Win_free(&window);
    free(out);
    free(in);
}

/* Passive targets: each rank writes places of its own, flushes, and reads them back. */
void locks(uint64_t state, MPI_Comm comm)
{
    size_t each = 8 + any_size(&state, largest / 16), bytes = each * (size_t)ranks;
    int times = 1 + (int)below(&state, 6), all = (int)below(&state, 2);
    char *base, *out = room(each), *in = room(each);
    uint64_t own = draw(&state) + (uint64_t)rank * 7919;
    MPI_Win window;

    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, comm, &base, &window);
    if (all)
        MPI_Win_lock_all(0, window);
    for (int t = 0; t < times; t++) {
        int to = (int)below(&own, (uint64_t)ranks), shared = (int)below(&own, 2);
        size_t skip = (size_t)below(&own, 8), length = 1 + (size_t)below(&own, each - skip);
        MPI_Aint place = (MPI_Aint)((size_t)rank * each + skip);
        uint64_t key = draw(&own);
        fill(out, length, key);
        if (!all)
            MPI_Win_lock(shared ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, to, 0, window);
        MPI_Put(out, (int)length, MPI_BYTE, to, place, (int)length, MPI_BYTE, window);
        if (all) {
            MPI_Win_flush(to, window);
        } else {
            MPI_Win_unlock(to, window);
            MPI_Win_lock(shared ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, to, 0, window);
        }
        MPI_Get(in, (int)length, MPI_BYTE, to, place, (int)length, MPI_BYTE, window);
        if (all)
            MPI_Win_flush(to, window);
        else
            MPI_Win_unlock(to, window);
        check(in, length, key, "put and got back");
    }
    if (all)
        MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(out);
    free(in);
}

/* Counts by atomics and under exclusive locks: nothing is lost, nothing is counted twice. */
void counters(uint64_t state, MPI_Comm comm)
{
    int times = 5 + (int)below(&state, 60);
    uint64_t own = draw(&state) + (uint64_t)rank * 104729;
    int64_t *base, mine[4] = {0}, all[4] = {0}, here[4];
    MPI_Win window;

    MPI_Win_allocate(64, 8, MPI_INFO_NULL, comm, &base, &window);
    memset(base, 0, 64);
    MPI_Barrier(comm);
    for (int t = 0; t < times; t++) {
        int to = (int)below(&own, (uint64_t)ranks), kind = (int)below(&own, 4);
        int64_t by = 1 + (int64_t)below(&own, 1000), before = -1, next;
        if (kind == 3) {
            /* Read, count, write, with the place to itself. */
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, window);
            MPI_Get(&before, 1, MPI_INT64_T, to, 3, 1, MPI_INT64_T, window);
            MPI_Win_flush(to, window);
            next = before + by;
            MPI_Put(&next, 1, MPI_INT64_T, to, 3, 1, MPI_INT64_T, window);
            MPI_Win_unlock(to, window);
            mine[kind] += by;
            continue;
        }
        MPI_Win_lock(MPI_LOCK_SHARED, to, 0, window);
        if (kind == 0) {
            MPI_Fetch_and_op(&by, &before, MPI_INT64_T, to, 0, MPI_SUM, window);
            MPI_Win_flush(to, window);
            EXPECT(before >= 0, "a fetch-and-add gave %lld", (long long)before);
        } else if (kind == 1) {
            MPI_Accumulate(&by, 1, MPI_INT64_T, to, 1, 1, MPI_INT64_T, MPI_SUM, window);
        } else {
            /* Until nobody was in between. */
            int64_t seen = 0;
            do {
                int64_t wanted = seen;
                next = wanted + by;
                MPI_Compare_and_swap(&next, &wanted, &seen, MPI_INT64_T, to, 2, window);
                MPI_Win_flush(to, window);
                if (seen == wanted)
                    break;
            } while (1);
        }
        MPI_Win_unlock(to, window);
        mine[kind] += by;
    }
    MPI_Barrier(comm);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    memcpy(here, base, sizeof here);
    MPI_Win_unlock(rank, window);
    MPI_Allreduce(MPI_IN_PLACE, mine, 4, MPI_INT64_T, MPI_SUM, comm);
    MPI_Allreduce(here, all, 4, MPI_INT64_T, MPI_SUM, comm);
    for (int i = 0; i < 4; i++)
        EXPECT(mine[i] == all[i], "counter %d: %lld, not %lld", i, (long long)all[i],
               (long long)mine[i]);
    MPI_Win_free(&window);
}

static void gather_all(uint64_t state, MPI_Comm comm, int me, int size)
{
    int *counts = room(sizeof(int) * (size_t)size), *places = room(sizeof(int) * (size_t)size);
    int total = 0;
    uint64_t key = draw(&state);

    for (int i = 0; i < size; i++) {
        counts[i] = (int)any_size(&state, largest / 32);
        places[i] = total;
        total += counts[i];
    }
    char *own = room((size_t)counts[me]), *all = room((size_t)total);
    fill(own, (size_t)counts[me], key + (uint64_t)me);
    MPI_Allgatherv(own, counts[me], MPI_BYTE, all, counts, places, MPI_BYTE, comm);
    for (int i = 0; i < size; i++)
        check(all + places[i], (size_t)counts[i], key + (uint64_t)i, "allgatherv");
    free(own), free(all), free(counts), free(places);
}

static void all_to_all(uint64_t state, MPI_Comm comm, int me, int size)
{
    size_t n = (size_t)size;
    int *out = room(sizeof(int) * n), *in = room(sizeof(int) * n);
    int *out_at = room(sizeof(int) * n), *in_at = room(sizeof(int) * n);
    int out_total = 0, in_total = 0;
    uint64_t key = draw(&state);

    for (int a = 0; a < size; a++) {
        for (int b = 0; b < size; b++) {
            int bytes = (int)any_size(&state, largest / 32);
            if (a == me)
                out[b] = bytes, out_at[b] = out_total, out_total += bytes;
            if (b == me)
                in[a] = bytes, in_at[a] = in_total, in_total += bytes;
        }
    }
    char *from = room((size_t)out_total), *to = room((size_t)in_total);
    for (int i = 0; i < size; i++)
        fill(from + out_at[i], (size_t)out[i], key + (uint64_t)(me * 1000 + i));
    MPI_Alltoallv(from, out, out_at, MPI_BYTE, to, in, in_at, MPI_BYTE, comm);
    for (int i = 0; i < size; i++)
        check(to + in_at[i], (size_t)in[i], key + (uint64_t)(i * 1000 + me), "alltoallv");
    free(from), free(to), free(out), free(in), free(out_at), free(in_at);
}

static void reduce(uint64_t state, MPI_Comm comm, int me, int size)
{
    int count = 1 + (int)any_size(&state, largest / 64), root = (int)below(&state, (uint64_t)size);
    int kind = (int)below(&state, 4);
    int64_t *own = room(sizeof(int64_t) * (size_t)count), *sum;
    MPI_Request request;

    sum = room(sizeof(int64_t) * (size_t)count);
    for (int i = 0; i < count; i++)
        own[i] = (int64_t)me * 3 + i;
    int64_t ranks_sum = (int64_t)size * (size - 1) / 2 * 3, upto = size;
    if (kind == 0) {
        MPI_Allreduce(own, sum, count, MPI_INT64_T, MPI_SUM, comm);
    } else if (kind == 1) {
        MPI_Iallreduce(own, sum, count, MPI_INT64_T, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (kind == 2) {
        MPI_Reduce(own, sum, count, MPI_INT64_T, MPI_SUM, root, comm);
    } else {
        MPI_Scan(own, sum, count, MPI_INT64_T, MPI_SUM, comm);
        ranks_sum = (int64_t)(me + 1) * me / 2 * 3;
        upto = me + 1;
    }
    for (int i = 0; (kind != 2 || me == root) && i < count; i++)
        EXPECT(sum[i] == ranks_sum + upto * i, "sum %d of kind %d: %lld, not %lld", i, kind,
               (long long)sum[i], (long long)(ranks_sum + upto * i));
    free(own);
    free(sum);
}

void collectives(uint64_t state, MPI_Comm comm)
{
    int me, size, times = 1 + (int)below(&state, 6);

    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    for (int t = 0; t < times; t++) {
        uint64_t kind = below(&state, 5), plan = draw(&state);
        size_t bytes = any_size(&state, largest);
        int root = (int)below(&state, (uint64_t)size);
        MPI_Request request;
        if (kind == 0) {
            char *buf = room(bytes);
            if (me == root)
                fill(buf, bytes, plan);
            MPI_Bcast(buf, (int)bytes, MPI_BYTE, root, comm);
            check(buf, bytes, plan, "broadcast");
            free(buf);
        } else if (kind == 1) {
            MPI_Ibarrier(comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Barrier(comm);
        } else if (kind == 2) {
            gather_all(plan, comm, me, size);
        } else if (kind == 3) {
            all_to_all(plan, comm, me, size);
        } else {
            reduce(plan, comm, me, size);
        }
    }
}

/* Parts and doubles of a communicator, used side by side. */
void splits(uint64_t state, MPI_Comm comm)
{
    int me, colours = 1 + (int)below(&state, 3), turn = (int)below(&state, 2);
    uint64_t plan = draw(&state), other = draw(&state);
    MPI_Comm twin, part;
    MPI_Request request;
    int64_t one = 1, sum = 0;

    MPI_Comm_rank(comm, &me);
    MPI_Comm_dup(comm, &twin);
    MPI_Comm_split(comm, me % colours, turn ? -me : me, &part);
    /* Under way on the double while the part is busy. */
    MPI_Iallreduce(&one, &sum, 1, MPI_INT64_T, MPI_SUM, twin, &request);
    collectives(plan + (uint64_t)(me % colours), part);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT(sum == ranks, "a sum on a double: %lld, not %d", (long long)sum, ranks);
    messages(other, twin);
    MPI_Comm_free(&part);
    MPI_Comm_free(&twin);
}

struct worker {
    MPI_Comm comm;
    uint64_t state;
    int to, from;
};

static void *work(void *argument)
{
    struct worker *w = argument;

    for (int i = 0; i < 40; i++) {
        size_t bytes = any_size(&w->state, largest / 64);
        uint64_t key = draw(&w->state);
        void *out = room(bytes), *in = room(bytes);
        fill(out, bytes, key + (uint64_t)rank);
        MPI_Sendrecv(out, (int)bytes, MPI_BYTE, w->to, i, in, (int)bytes, MPI_BYTE, w->from, i,
                     w->comm, MPI_STATUS_IGNORE);
        check(in, bytes, key + (uint64_t)w->from, "by a thread");
        free(out);
        free(in);
    }
    return NULL;
}

/* Several threads of each rank at once, each with a communicator of its own. */
void threads(uint64_t state, MPI_Comm comm)
{
    enum { THREADS = 3 };
    struct worker workers[THREADS];
    pthread_t ids[THREADS];

    if (!threads_work)
        return;
    for (int i = 0; i < THREADS; i++) {
        int step = 1 + (int)below(&state, (uint64_t)ranks);
        workers[i].to = (rank + step) % ranks;
        workers[i].from = (rank + ranks - step % ranks) % ranks;
        workers[i].state = draw(&state);
        MPI_Comm_dup(comm, &workers[i].comm);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&ids[i], NULL, work, &workers[i]))
            fail("no thread");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        MPI_Comm_free(&workers[i].comm);
    }
}
