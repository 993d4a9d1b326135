/* Messages that are built and read in the device's memory, between two ranks; and what is wrong to
 * do with them. */
#include <pthread.h>

#include "check.h"

static weft_context *context;
static uint32_t other;

/* Sends `len` bytes that are built in place. */
static void give(size_t len, uint64_t tag) {
    void *memory = NULL;
    GOOD(weft_context_reserve(context, other, len, &memory));
    HOLDS(memory);
    paint(memory, len, (unsigned)tag);
    GOOD(weft_context_commit(context, tag));
}

/* Reads them in place. */
static void take(size_t len, uint64_t tag) {
    const void *bytes = NULL;
    weft_envelope envelope;
    GOOD(weft_context_recv(context, &bytes, &envelope));
    HOLDS(bytes && envelope.source == other && envelope.tag == tag && envelope.len == len);
    HOLDS(painted(bytes, len, (unsigned)tag));
    GOOD(weft_context_release(context));
}

static void there_and_back(void) {
    size_t longest;
    GOOD(weft_context_message_max(context, other, &longest));
    size_t lengths[] = {0, 1, 8, 33, 1000, longest / 2, longest};
    for (uint64_t i = 0; i < 700; i++) {
        size_t len = lengths[i % (sizeof lengths / sizeof *lengths)];
        if (rank == 0) {
            give(len, i);
            take(len, i + 1);
        } else {
            take(len, i);
            give(len, i + 1);
        }
    }
    void *memory;
    SAYS(WEFT_BAD_MESSAGE, "long", weft_context_reserve(context, other, longest + 1, &memory));
}

/* Both ways at once, more than there is room for, without waiting. */
static void at_once(void) {
    enum { EACH = 5000, LEN = 200 };
    uint64_t sent = 0, came = 0;
    while (sent < EACH || came < EACH) {
        void *memory = NULL;
        if (sent < EACH)
            GOOD(weft_context_try_reserve(context, other, LEN, &memory));
        if (memory) {
            paint(memory, LEN, (unsigned)sent);
            /* Some are thought better of. */
            if (sent % 3 == 1) {
                GOOD(weft_context_release(context));
                memory = NULL;
                char copy[LEN];
                paint(copy, LEN, (unsigned)sent);
                GOOD(weft_context_send(context, other, sent, copy, LEN));
            } else {
                GOOD(weft_context_commit(context, sent));
            }
            sent++;
        }
        GOOD(weft_context_flush(context));
        const void *bytes = NULL;
        weft_envelope envelope;
        if (came < EACH)
            GOOD(weft_context_try_recv(context, &bytes, &envelope));
        if (bytes) {
            HOLDS(envelope.tag == came && envelope.len == LEN);
            HOLDS(painted(bytes, LEN, (unsigned)came++));
            GOOD(weft_context_release(context));
        }
    }
}

static void *meddle(void *held) {
    void *memory;
    const void *bytes;
    (void)held;
    SAYS(WEFT_BUSY, "in hand", weft_context_reserve(context, other, 8, &memory));
    SAYS(WEFT_BUSY, "in hand", weft_context_recv(context, &bytes, NULL));
    SAYS(WEFT_BAD_MESSAGE, "another thread has", weft_context_commit(context, 1));
    SAYS(WEFT_BAD_MESSAGE, "another thread has", weft_context_release(context));
    SAYS(WEFT_BUSY, "in hand", weft_context_free(context));
    return NULL;
}

static void by_another_thread(void) {
    pthread_t thread;
    HOLDS(pthread_create(&thread, NULL, meddle, NULL) == 0);
    HOLDS(pthread_join(thread, NULL) == 0);
}

static void *wait_for_one(void *unused) {
    const void *bytes;
    weft_status status;
    (void)unused;
    /* The other thread asks again and again. */
    do
        status = weft_context_recv(context, &bytes, NULL);
    while (status == WEFT_BUSY);
    expect(status, WEFT_OK, "a wait beside calls of another thread", __LINE__);
    GOOD(weft_context_release(context));
    return NULL;
}

/* A thread that waits has the context to itself. */
static void beside_one_that_waits(uint32_t who) {
    uint32_t number;
    if (rank != who) {
        GOOD(weft_recv(endpoint, other, 2, 0, NULL, 0, NULL));
        GOOD(weft_context_send(context, other, 3, NULL, 0));
    } else {
        pthread_t thread;
        HOLDS(pthread_create(&thread, NULL, wait_for_one, NULL) == 0);
        weft_status status;
        do
            status = weft_context_rank(context, &number);
        while (status == WEFT_OK);
        expect(status, WEFT_BUSY, "a call beside one that waits", __LINE__);
        /* It has the context now until something comes, and nothing does before this. */
        IS(WEFT_BUSY, weft_context_free(context));
        GOOD(weft_send(endpoint, other, 2, NULL, 0));
        HOLDS(pthread_join(thread, NULL) == 0);
    }
    GOOD(weft_barrier(endpoint));
}

static void mistakes(void) {
    weft_context *none;
    void *memory = NULL;
    const void *bytes = NULL;
    size_t len;
    uint32_t number;
    IS(WEFT_NULL, weft_context_open(job, 9, NULL));
    IS(WEFT_DEAD_HANDLE, weft_context_rank(NULL, &number));
    IS(WEFT_DEAD_HANDLE, weft_context_send((weft_context *)endpoint, other, 1, "x", 1));
    IS(WEFT_NULL, weft_context_send(context, other, 1, NULL, 1));
    IS(WEFT_UNKNOWN_PEER, weft_context_send(context, size, 1, "x", 1));
    IS(WEFT_UNKNOWN_PEER, weft_context_reserve(context, size, 1, &memory));
    IS(WEFT_UNKNOWN_PEER, weft_context_message_max(context, size, &len));
    IS(WEFT_NULL, weft_context_reserve(context, other, 1, NULL));
    IS(WEFT_NULL, weft_context_recv(context, NULL, NULL));
    SAYS(WEFT_BAD_MESSAGE, "there is no", weft_context_commit(context, 1));
    SAYS(WEFT_BAD_MESSAGE, "there is no", weft_context_release(context));
    IS(WEFT_TIMED_OUT, weft_context_recv_timeout(context, 1000, &bytes, NULL));
    GOOD(weft_context_try_recv(context, &bytes, NULL));
    HOLDS(!bytes);

    GOOD(weft_context_reserve(context, other, 8, &memory));
    IS(WEFT_BUSY, weft_context_rank(context, &number));
    by_another_thread();
    GOOD(weft_context_release(context));

    /* To itself, so that nothing depends on the other rank. */
    GOOD(weft_context_send(context, rank, 5, "self", 5));
    GOOD(weft_context_recv(context, &bytes, NULL));
    HOLDS(strcmp(bytes, "self") == 0);
    SAYS(WEFT_BAD_MESSAGE, "was received", weft_context_commit(context, 1));
    by_another_thread();
    GOOD(weft_context_release(context));
    IS(WEFT_CHANNEL_TAKEN, weft_context_open(job, 8, &none));
}

int main(void) {
    uint32_t number;
    begin();
    HOLDS(size == 2);
    other = 1 - rank;
    GOOD(weft_context_open(job, 8, &context));
    GOOD(weft_context_rank(context, &number));
    HOLDS(number == rank);
    GOOD(weft_context_size(context, &number));
    HOLDS(number == size);
    there_and_back();
    at_once();
    GOOD(weft_barrier(endpoint));
    mistakes();
    GOOD(weft_barrier(endpoint));
    beside_one_that_waits(0);
    beside_one_that_waits(1);
    GOOD(weft_context_free(context));
    IS(WEFT_DEAD_HANDLE, weft_context_rank(context, &number));
    end();
}
