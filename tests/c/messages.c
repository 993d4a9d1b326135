/* Every call of a job, an endpoint and messages, by any number of ranks. */
#include "check.h"

static const size_t LENGTHS[] = {0, 1, 8, 100, 4096, 70000, 1 << 20};
enum { LENGTHS_COUNT = sizeof LENGTHS / sizeof *LENGTHS };

/* To the next rank, from the one before. */
static void round_all(void) {
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (unsigned i = 0; i < LENGTHS_COUNT; i++) {
        size_t len = LENGTHS[i];
        char *out = memory_of(len), *in = memory_of(len);
        weft_request request;
        weft_envelope envelope;
        paint(out, len, rank + i);
        GOOD(weft_isend(endpoint, next, i, out, len, &request));
        GOOD(weft_recv(endpoint, before, i, 0, in, len, &envelope));
        HOLDS(envelope.source == before && envelope.tag == i && envelope.len == len);
        HOLDS(painted(in, len, before + i));
        GOOD(weft_wait(&request, NULL));
        HOLDS(request.endpoint == 0 && request.operation == 0);
        IS(WEFT_NO_REQUEST, weft_wait(&request, NULL));

        /* The other way round: the receive is there first. */
        GOOD(weft_irecv(endpoint, WEFT_ANY_SOURCE, 0x500, 0xff, in, len, &request));
        GOOD(weft_send(endpoint, next, 0x500 + i, out, len));
        bool done = false;
        while (!done)
            GOOD(weft_test(&request, &done, &envelope));
        HOLDS(envelope.source == before && envelope.tag == 0x500 + i && envelope.len == len);
        HOLDS(painted(in, len, before + i));
        free(out);
        free(in);
    }
}

static void probes(void) {
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    char out[300], in[300];
    bool found = true;
    weft_envelope envelope;
    weft_message *message = (weft_message *)&found;
    GOOD(weft_iprobe(endpoint, before, 77, 0, &found, &envelope));
    HOLDS(!found);
    GOOD(weft_mprobe(endpoint, before, 77, 0, &message, &envelope));
    HOLDS(message == NULL);
    GOOD(weft_barrier(endpoint));

    paint(out, sizeof out, rank);
    GOOD(weft_send(endpoint, next, 77, out, sizeof out));
    GOOD(weft_send(endpoint, next, 77, out, 10));
    GOOD(weft_probe(endpoint, WEFT_ANY_SOURCE, 0, WEFT_ANY_TAG, &envelope));
    HOLDS(envelope.source == before && envelope.tag == 77 && envelope.len == sizeof out);
    GOOD(weft_iprobe(endpoint, before, 77, 0, &found, NULL));
    HOLDS(found);
    GOOD(weft_mprobe(endpoint, before, 77, 0, &message, &envelope));
    HOLDS(message != NULL && envelope.len == sizeof out);
    /* It is out of the matching: the next one is received before it. */
    GOOD(weft_recv(endpoint, before, 77, 0, in, sizeof in, &envelope));
    HOLDS(envelope.len == 10);
    SAYS(WEFT_BUSY, "an endpoint cannot be freed", weft_endpoint_free(endpoint));
    GOOD(weft_mrecv(message, in, sizeof in, &envelope));
    HOLDS(envelope.len == sizeof out && painted(in, sizeof out, before));
    IS(WEFT_DEAD_HANDLE, weft_mrecv(message, in, sizeof in, &envelope));
}

static void limits(void) {
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    char out[100], in[100];
    weft_envelope envelope;
    weft_request request;
    paint(out, sizeof out, rank);
    memset(in, 99, sizeof in);
    SAYS(WEFT_TIMED_OUT, "nothing arrived",
         weft_recv_timeout(endpoint, before, 5, 0, in, sizeof in, 2000000, &envelope));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_send(endpoint, next, 5, out, sizeof out));
    GOOD(weft_recv_timeout(endpoint, before, 5, 0, in, sizeof in, UINT64_MAX, &envelope));
    HOLDS(painted(in, sizeof in, before));

    GOOD(weft_send(endpoint, next, 6, out, sizeof out));
    memset(in, 99, sizeof in);
    SAYS(WEFT_TRUNCATED, "has 100 bytes",
         weft_recv(endpoint, before, 6, 0, in, 10, &envelope));
    HOLDS(envelope.len == sizeof out && painted(in, 10, before) && in[10] == 99);
    GOOD(weft_send(endpoint, next, 6, out, sizeof out));
    GOOD(weft_irecv(endpoint, before, 6, 0, in, 20, &request));
    memset(&envelope, 0, sizeof envelope);
    SAYS(WEFT_TRUNCATED, "has 100 bytes", weft_wait(&request, &envelope));
    HOLDS(envelope.len == sizeof out);

    /* A receive that is cancelled ends so. */
    bool cancelled = false;
    GOOD(weft_irecv(endpoint, before, 8, 0, in, sizeof in, &request));
    GOOD(weft_cancel(&request, &cancelled));
    HOLDS(cancelled);
    IS(WEFT_CANCELLED, weft_wait(&request, NULL));
    IS(WEFT_NO_REQUEST, weft_cancel(&request, &cancelled));

    /* Nobody asks for its end. */
    GOOD(weft_isend(endpoint, next, 9, out, sizeof out, &request));
    GOOD(weft_detach(&request));
    IS(WEFT_NO_REQUEST, weft_detach(&request));
    GOOD(weft_recv(endpoint, before, 9, 0, in, sizeof in, NULL));
    HOLDS(painted(in, sizeof in, before));
    IS(WEFT_UNKNOWN_PEER, weft_send(endpoint, size, 9, out, sizeof out));
}

static void many(void) {
    enum { COUNT = 64 };
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    weft_request requests[2 * COUNT + 1];
    weft_envelope envelopes[2 * COUNT + 1];
    static uint64_t out[COUNT], in[COUNT];
    memset(requests, 0, sizeof requests);
    for (uint64_t i = 0; i < COUNT; i++) {
        out[i] = rank * 1000 + i;
        weft_request *sent = &requests[COUNT + 1 + i];
        GOOD(weft_irecv(endpoint, before, 1000 + i, 0, &in[i], sizeof in[i], &requests[i]));
        GOOD(weft_isend(endpoint, next, 1000 + i, &out[i], sizeof out[i], sent));
    }
    /* One of them is none. */
    GOOD(weft_wait_all(requests, 2 * COUNT + 1, envelopes));
    for (uint64_t i = 0; i < COUNT; i++) {
        HOLDS(in[i] == before * 1000 + i && envelopes[i].tag == 1000 + i);
        HOLDS(requests[i].operation == 0 && requests[COUNT + 1 + i].operation == 0);
    }
    GOOD(weft_wait_all(requests, 2 * COUNT + 1, NULL));
    GOOD(weft_wait_all(NULL, 0, NULL));
}

static void about(void) {
    char text[8192], little[5];
    size_t len = 0;
    uint32_t number;
    bool done;
    GOOD(weft_counters(endpoint, text, sizeof text, &len));
    HOLDS(len > 0 && (len >= sizeof text || strlen(text) == len));
    HOLDS(strstr(text, "endpoint.posted 0\n"));
    GOOD(weft_counters(endpoint, little, sizeof little, NULL));
    HOLDS(strlen(little) == 4 && strncmp(little, text, 4) == 0);
    GOOD(weft_counters(endpoint, NULL, 0, &len));
    GOOD(weft_progress(endpoint, &done));
    GOOD(weft_progress(endpoint, NULL));
    GOOD(weft_job_rank(job, &number));
    HOLDS(number == rank);
    GOOD(weft_job_size(job, &number));
    HOLDS(number == size);
    HOLDS(strchr(weft_version(), '.'));
}

/* A job of its own, beside the launcher's. */
static void alone(void) {
    weft_job *own;
    weft_endpoint *other;
    uint32_t number;
    char in[4];
    GOOD(weft_job_single(&own));
    GOOD(weft_endpoint_open(own, 0, &other));
    GOOD(weft_endpoint_size(other, &number));
    HOLDS(number == 1);
    GOOD(weft_send(other, 0, 1, "abc", 4));
    GOOD(weft_recv(other, 0, 1, 0, in, sizeof in, NULL));
    HOLDS(strcmp(in, "abc") == 0);
    weft_endpoint *again;
    SAYS(WEFT_CHANNEL_TAKEN, "close it first", weft_endpoint_open(own, 0, &again));
    GOOD(weft_send(other, 0, 1, "abc", 4));
    GOOD(weft_endpoint_free(other));
    IS(WEFT_DEAD_HANDLE, weft_send(other, 0, 1, "abc", 4));
    IS(WEFT_DEAD_HANDLE, weft_endpoint_free(other));
    GOOD(weft_job_free(own));
    IS(WEFT_DEAD_HANDLE, weft_job_free(own));
}

int main(void) {
    begin();
    round_all();
    probes();
    limits();
    many();
    about();
    alone();
    GOOD(weft_barrier(endpoint));
    end();
    return 0;
}
