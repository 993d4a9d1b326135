/* Phases of the stress program: messages from rank to rank. */
#define _GNU_SOURCE
#include "stress.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 96

/* One message of a plan. */
struct item {
    int from, to, tag, style;
    size_t bytes;
    uint64_t key;
    int received;
};

struct plan {
    int count;
    struct item items[MOST];
    /* Bytes of the largest. */
    size_t most;
};

static void nap(long microseconds)
{
    struct timespec t = {0, microseconds * 1000};
    nanosleep(&t, NULL);
}

static struct plan make_plan(uint64_t *state, int count, int tags)
{
    struct plan plan = {.count = count, .most = 0};
    size_t each = budget / (size_t)count < largest ? budget / (size_t)count : largest;

    for (int i = 0; i < count; i++) {
        struct item *item = &plan.items[i];
        item->from = (int)below(state, (uint64_t)ranks);
        item->to = (int)below(state, (uint64_t)ranks);
        item->tag = (int)below(state, (uint64_t)tags);
        item->style = (int)below(state, 4);
        item->bytes = any_size(state, each);
        item->key = draw(state);
        item->received = 0;
        if (item->bytes > plan.most)
            plan.most = item->bytes;
    }
    return plan;
}

/* The first message of a plan that fits what a receive has matched: order is kept between two ranks
 * for one tag. */
static struct item *matched(struct plan *plan, const MPI_Status *status)
{
    for (int i = 0; i < plan->count; i++) {
        struct item *item = &plan->items[i];
        if (item->to == rank && !item->received && item->from == status->MPI_SOURCE &&
            item->tag == status->MPI_TAG) {
            item->received = 1;
            return item;
        }
    }
    fail("a message that nobody sent: from rank %d, tag %d", status->MPI_SOURCE, status->MPI_TAG);
}

static void take(struct plan *plan, const MPI_Status *status, const void *buf, const char *what)
{
    struct item *item = matched(plan, status);
    int count;

    MPI_Get_count(status, MPI_BYTE, &count);
    EXPECT((size_t)count == item->bytes, "%s: %d bytes from rank %d with tag %d, not %zu", what,
           count, item->from, item->tag, item->bytes);
    check(buf, item->bytes, item->key, what);
}

/* Starts all sends of this rank. */
static int start_sends(struct plan *plan, MPI_Comm comm, MPI_Request *all, void **bufs)
{
    int sends = 0;

    for (int i = 0; i < plan->count; i++) {
        struct item *item = &plan->items[i];
        if (item->from != rank)
            continue;
        void *buf = bufs[sends] = room(item->bytes);
        int bytes = (int)item->bytes;
        fill(buf, item->bytes, item->key);
        if (item->style == 0)
            MPI_Issend(buf, bytes, MPI_BYTE, item->to, item->tag, comm, &all[sends]);
        else
            MPI_Isend(buf, bytes, MPI_BYTE, item->to, item->tag, comm, &all[sends]);
        sends++;
    }
    return sends;
}

static void end_sends(int sends, MPI_Request *all, void **bufs)
{
    MPI_Waitall(sends, all, MPI_STATUSES_IGNORE);
    for (int i = 0; i < sends; i++)
        free(bufs[i]);
}

/* Receives of one kind each: exact, from anyone, of any tag, or both; posted before the messages
 * come or after. */
void messages(uint64_t state, MPI_Comm comm)
{
    int count = 1 + (int)below(&state, MOST - 1);
    int kind = (int)below(&state, 4), late = (int)below(&state, 3);
    struct plan plan = make_plan(&state, count, 1 + (int)below(&state, 5));
    MPI_Request sends[MOST], receives[MOST];
    MPI_Status statuses[MOST];
    void *out[MOST], *in[MOST];
    int wanted = 0, sent;

    if (late == 1)
        MPI_Barrier(comm);
    if (late) {
        sent = start_sends(&plan, comm, sends, out);
        nap((long)below(&state, 2000));
    }
    for (int i = 0; i < plan.count; i++) {
        struct item *item = &plan.items[i];
        if (item->to != rank)
            continue;
        int from = kind & 1 ? MPI_ANY_SOURCE : item->from;
        int tag = kind & 2 ? MPI_ANY_TAG : item->tag;
        in[wanted] = room(plan.most);
        MPI_Irecv(in[wanted], (int)plan.most, MPI_BYTE, from, tag, comm, &receives[wanted]);
        wanted++;
    }
    if (!late)
        sent = start_sends(&plan, comm, sends, out);
    if (below(&state, 2)) {
        MPI_Waitall(wanted, receives, statuses);
    } else {
        for (int left = wanted, at; left > 0; left--) {
            MPI_Status status;
            MPI_Waitany(wanted, receives, &at, &status);
            statuses[at] = status;
        }
    }
    /* In the order in which they were posted: that is the order of matching. */
    for (int i = 0; i < wanted; i++) {
        take(&plan, &statuses[i], in[i], "received");
        free(in[i]);
    }
    end_sends(sent, sends, out);
    /* A wildcard of this round must not see the next one's messages. */
    MPI_Barrier(comm);
}

/* Receives what a probe has found. */
void probes(uint64_t state, MPI_Comm comm)
{
    int count = 1 + (int)below(&state, MOST / 2), kind = (int)below(&state, 5);
    struct plan plan = make_plan(&state, count, 3);
    MPI_Request sends[MOST];
    void *out[MOST];
    int wanted = 0, sent;

    /* MPICH looks for what a rank has sent to itself in another place than for what others have
     * sent: after a probe from anyone a receive from anyone may take another message (also on its
     * own transports, between nodes). */
    for (int i = 0; kind == 4 && i < plan.count; i++)
        if (plan.items[i].from == plan.items[i].to)
            plan.items[i].to = (plan.items[i].to + 1) % ranks;
    kind = ranks > 1 ? kind : kind % 4;
    sent = start_sends(&plan, comm, sends, out);
    for (int i = 0; i < plan.count; i++)
        wanted += plan.items[i].to == rank;
    for (; wanted > 0; wanted--) {
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        int there = 0, count_there;
        switch (kind) {
        case 0:
        case 4:
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
            break;
        case 1:
            while (!there)
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &status);
            break;
        case 2:
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &status);
            break;
        default:
            while (!there)
                MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &message, &status);
        }
        MPI_Get_count(&status, MPI_BYTE, &count_there);
        void *buf = room((size_t)count_there);
        if (kind < 2) {
            MPI_Recv(buf, count_there, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
        } else if (kind == 4) {
            /* A receive of the same kind takes the message that the probe has seen. */
            int from = status.MPI_SOURCE, tag = status.MPI_TAG;
            MPI_Recv(buf, count_there, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
            EXPECT(status.MPI_SOURCE == from && status.MPI_TAG == tag,
                   "probed: from rank %d with tag %d; received: from %d with %d", from, tag,
                   status.MPI_SOURCE, status.MPI_TAG);
        } else
            MPI_Mrecv(buf, count_there, MPI_BYTE, &message, &status);
        take(&plan, &status, buf, "probed");
        free(buf);
    }
    end_sends(sent, sends, out);
    MPI_Barrier(comm);
}

/* Receives that are cancelled: some can match nothing, some race with their message. */
void cancels(uint64_t state, MPI_Comm comm)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    int times = 1 + (int)below(&state, 10);

    for (int i = 0; i < times; i++) {
        size_t bytes = any_size(&state, largest / 4);
        uint64_t key = draw(&state);
        int race = (int)below(&state, 2), cancelled = 0, count;
        char nothing[8];
        void *out = room(bytes), *in = room(bytes);
        MPI_Request never, receive, send;
        MPI_Status status;
        fill(out, bytes, key + (uint64_t)rank);
        MPI_Irecv(nothing, sizeof nothing, MPI_BYTE, from, 99, comm, &never);
        MPI_Irecv(in, (int)bytes, MPI_BYTE, from, 7, comm, &receive);
        MPI_Isend(out, (int)bytes, MPI_BYTE, to, 7, comm, &send);
        if (race)
            nap((long)below(&state, 300));
        MPI_Cancel(&never);
        MPI_Cancel(&receive);
        MPI_Wait(&never, &status);
        MPI_Test_cancelled(&status, &cancelled);
        EXPECT(cancelled, "a receive that nothing matches was not cancelled");
        MPI_Wait(&receive, &status);
        MPI_Test_cancelled(&status, &cancelled);
        if (cancelled)
            MPI_Recv(in, (int)bytes, MPI_BYTE, from, 7, comm, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        EXPECT((size_t)count == bytes, "around a cancel: %d bytes, not %zu", count, bytes);
        check(in, bytes, key + (uint64_t)from, "around a cancel");
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        free(out);
        free(in);
    }
}

/* Requests that are made once and started many times. */
void persistent(uint64_t state, MPI_Comm comm)
{
    int pairs = 1 + (int)below(&state, 6), times = 1 + (int)below(&state, 8);
    int step = 1 + (int)below(&state, (uint64_t)ranks);
    int to = (rank + step) % ranks, from = (rank + ranks - step % ranks) % ranks;
    size_t bytes[8];
    void *out[8], *in[8];
    MPI_Request all[16];

    for (int i = 0; i < pairs; i++) {
        bytes[i] = any_size(&state, largest / 4);
        out[i] = room(bytes[i]);
        in[i] = room(bytes[i]);
        MPI_Recv_init(in[i], (int)bytes[i], MPI_BYTE, from, i, comm, &all[i]);
        MPI_Send_init(out[i], (int)bytes[i], MPI_BYTE, to, i, comm, &all[pairs + i]);
    }
    for (int t = 0; t < times; t++) {
        uint64_t key = draw(&state);
        for (int i = 0; i < pairs; i++)
            fill(out[i], bytes[i], key + (uint64_t)(rank * 64 + i));
        MPI_Startall(2 * pairs, all);
        MPI_Waitall(2 * pairs, all, MPI_STATUSES_IGNORE);
        for (int i = 0; i < pairs; i++)
            check(in[i], bytes[i], key + (uint64_t)(from * 64 + i), "persistent");
    }
    for (int i = 0; i < pairs; i++) {
        MPI_Request_free(&all[i]);
        MPI_Request_free(&all[pairs + i]);
        free(out[i]);
        free(in[i]);
    }
}

/* Messages whose parts are given one by one. */
void partitioned(uint64_t state, MPI_Comm comm)
{
#if MPI_VERSION >= 4
    int parts = 1 + (int)below(&state, 8), times = 1 + (int)below(&state, 4);
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    size_t each = any_size(&state, largest / 16);
    size_t bytes = each * (size_t)parts;
    char *out = room(bytes), *in = room(bytes);
    MPI_Request send, receive;

    /* A rank is no partner of itself here: not every library can do that. */
    if (ranks > 1 && each > 0) {
        MPI_Psend_init(out, parts, (MPI_Count)each, MPI_BYTE, to, 5, comm, MPI_INFO_NULL, &send);
        MPI_Precv_init(in, parts, (MPI_Count)each, MPI_BYTE, from, 5, comm, MPI_INFO_NULL,
                       &receive);
        for (int t = 0; t < times; t++) {
            uint64_t key = draw(&state);
            int first = (int)below(&state, (uint64_t)parts);
            MPI_Start(&receive);
            MPI_Start(&send);
            for (int i = 0; i < parts; i++) {
                int part = (first + i) % parts;
                fill(out + (size_t)part * each, each, key + (uint64_t)(rank * 64 + part));
                MPI_Pready(part, send);
            }
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            MPI_Wait(&receive, MPI_STATUS_IGNORE);
            for (int i = 0; i < parts; i++)
                check(in + (size_t)i * each, each, key + (uint64_t)(from * 64 + i), "partitioned");
        }
        MPI_Request_free(&send);
        MPI_Request_free(&receive);
    }
    free(out);
    free(in);
#else
    (void)state, (void)comm;
#endif
}

/* A datatype of `bytes` bytes with holes, and how much memory one item takes. */
static MPI_Datatype holes(uint64_t *state, size_t bytes, size_t *extent)
{
    MPI_Datatype type, whole;
    int block = 1 + (int)below(state, 300), kind = (int)below(state, 3);
    int blocks = (int)((bytes + (size_t)block - 1) / (size_t)block);

    if (kind == 0) {
        int gap = (int)below(state, 50);
        MPI_Type_vector((int)bytes, 1, 1 + gap % 3, MPI_BYTE, &type);
        *extent = bytes * (size_t)(1 + gap % 3);
    } else {
        int *lengths = room(sizeof(int) * (size_t)blocks);
        MPI_Aint *places = room(sizeof(MPI_Aint) * (size_t)blocks), at = 0;
        size_t left = bytes;
        for (int i = 0; i < blocks; i++) {
            lengths[i] = left < (size_t)block ? (int)left : block;
            left -= (size_t)lengths[i];
            places[i] = at;
            at += lengths[i] + (MPI_Aint)below(state, 64);
        }
        if (kind == 1) {
            /* From the last block to the first in memory. */
            for (int i = 0; i < blocks / 2; i++) {
                int other = blocks - 1 - i;
                if (lengths[i] != lengths[other])
                    continue;
                MPI_Aint place = places[i];
                places[i] = places[other];
                places[other] = place;
            }
        }
        MPI_Type_create_hindexed(blocks, lengths, places, MPI_BYTE, &type);
        *extent = (size_t)at;
        free(lengths);
        free(places);
    }
    MPI_Type_create_resized(type, 0, (MPI_Aint)(*extent ? *extent : 1), &whole);
    MPI_Type_free(&type);
    MPI_Type_commit(&whole);
    return whole;
}

/* Both sides see the same bytes through types of their own. */
void shapes(uint64_t state, MPI_Comm comm)
{
    int times = 1 + (int)below(&state, 5);
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

    for (int t = 0; t < times; t++) {
        size_t bytes = any_size(&state, largest / 16), out_extent, in_extent;
        uint64_t key = draw(&state), own = draw(&state) + (uint64_t)rank, mine;
        if (bytes == 0)
            continue;
        MPI_Datatype out_type = holes(&own, bytes, &out_extent);
        MPI_Datatype in_type = holes(&own, bytes, &in_extent);
        char *flat = room(bytes), *out = room(out_extent), *in = room(in_extent);
        char *guard = room(in_extent);
        int at = 0;
        mine = key + (uint64_t)rank;
        fill(flat, bytes, mine);
        MPI_Unpack(flat, (int)bytes, &at, out, 1, out_type, comm);
        memset(in, 0x5a, in_extent);
        memset(guard, 0x5a, in_extent);
        MPI_Sendrecv(out, 1, out_type, to, 1, in, 1, in_type, from, 1, comm, MPI_STATUS_IGNORE);
        at = 0;
        MPI_Pack(in, 1, in_type, flat, (int)bytes, &at, comm);
        check(flat, bytes, key + (uint64_t)from, "through a datatype");
        /* The holes are as they were. */
        at = 0;
        MPI_Unpack(flat, (int)bytes, &at, guard, 1, in_type, comm);
        EXPECT(!memcmp(in, guard, in_extent), "a hole of a datatype was written");
        MPI_Type_free(&out_type);
        MPI_Type_free(&in_type);
        free(flat), free(out), free(in), free(guard);
    }
}

/* Large messages in both directions of every pair at once. */
void both_ways(uint64_t state, MPI_Comm comm)
{
    int step = 1 + (int)below(&state, (uint64_t)ranks);
    int to = (rank + step) % ranks, from = (rank + ranks - step % ranks) % ranks;
    size_t bytes = largest / 2 + below(&state, largest / 2 + 1);
    uint64_t key = draw(&state);
    void *out = room(bytes), *in = room(bytes);

    fill(out, bytes, key + (uint64_t)rank);
    MPI_Sendrecv(out, (int)bytes, MPI_BYTE, to, 3, in, (int)bytes, MPI_BYTE, from, 3, comm,
                 MPI_STATUS_IGNORE);
    check(in, bytes, key + (uint64_t)from, "both ways");
    free(out);
    free(in);
}

/* Many small messages that nobody takes for a while: they are kept, and in order. */
void flood(uint64_t state, MPI_Comm comm)
{
    int count = 500 + (int)below(&state, 4000), target = (int)below(&state, (uint64_t)ranks);
    size_t most = (size_t)1 << below(&state, 12);
    char *buf = room(most);
    uint64_t base = draw(&state);

    if (rank == target)
        nap((long)below(&state, 20000));
    for (int i = 0; i < count; i++) {
        uint64_t drawn = base + (uint64_t)i, key = draw(&drawn);
        size_t bytes = (size_t)(key % (most + 1));
        if (rank != target) {
            fill(buf, bytes, key + (uint64_t)rank);
            MPI_Send(buf, (int)bytes, MPI_BYTE, target, 4, comm);
            continue;
        }
        for (int from = 0; from < ranks; from++) {
            MPI_Status status;
            int got;
            if (from == target)
                continue;
            MPI_Recv(buf, (int)most, MPI_BYTE, from, 4, comm, &status);
            MPI_Get_count(&status, MPI_BYTE, &got);
            EXPECT((size_t)got == bytes, "message %d of a flood: %d bytes, not %zu", i, got, bytes);
            check(buf, bytes, key + (uint64_t)from, "a flood");
        }
    }
    free(buf);
}
