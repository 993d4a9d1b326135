/* What programs do wrong, and what happens to them, is told as an error: by the role that the
 * argument names. */
#include <pthread.h>
#include <sys/wait.h>

#include "check.h"

/* Null where memory is needed, and handles that are none: any number of ranks. */
static void arguments(void) {
    weft_endpoint *made_up = (weft_endpoint *)(uintptr_t)0x1234567812345672;
    weft_request request = {0, 0}, junk = {0x1234567812345672, 99};
    weft_region *region;
    weft_group *group;
    char byte = 0;
    bool flag;
    uint32_t number;

    SAYS(WEFT_NULL, "where the job goes", weft_job_single(NULL));
    IS(WEFT_NULL, weft_job_from_env(NULL));
    if (size > 1)
        SAYS(WEFT_WIRE_UP, "joined its job already", weft_job_from_env(&job));
    SAYS(WEFT_DEAD_HANDLE, "is null", weft_endpoint_rank(NULL, &number));
    IS(WEFT_NULL, weft_endpoint_rank(endpoint, NULL));
    SAYS(WEFT_DEAD_HANDLE, "no handle of an endpoint", weft_send(made_up, 0, 1, &byte, 1));
    IS(WEFT_DEAD_HANDLE, weft_send((weft_endpoint *)&byte, 0, 1, &byte, 1));
    IS(WEFT_DEAD_HANDLE, weft_send((weft_endpoint *)job, 0, 1, &byte, 1));
    IS(WEFT_DEAD_HANDLE, weft_job_free((weft_job *)endpoint));
    IS(WEFT_DEAD_HANDLE, weft_endpoint_free(NULL));
    IS(WEFT_DEAD_HANDLE, weft_endpoint_free(made_up));
    SAYS(WEFT_NULL, "give the address of 5 bytes", weft_send(endpoint, rank, 1, NULL, 5));
    IS(WEFT_BAD_ARGUMENT, weft_send(endpoint, rank, 1, &byte, SIZE_MAX));
    IS(WEFT_NULL, weft_recv(endpoint, rank, 1, 0, NULL, 5, NULL));
    IS(WEFT_NULL, weft_isend(endpoint, rank, 1, &byte, 1, NULL));
    IS(WEFT_NULL, weft_isend(endpoint, rank, 1, NULL, 1, &request));
    IS(WEFT_NULL, weft_irecv(endpoint, rank, 1, 0, NULL, 1, &request));
    HOLDS(request.operation == 0);
    IS(WEFT_NO_REQUEST, weft_wait(&request, NULL));
    IS(WEFT_NO_REQUEST, weft_test(&request, &flag, NULL));
    IS(WEFT_NULL, weft_test(&request, NULL, NULL));
    IS(WEFT_NULL, weft_wait(NULL, NULL));
    IS(WEFT_NULL, weft_wait_all(NULL, 1, NULL));
    IS(WEFT_DEAD_HANDLE, weft_wait(&junk, NULL));
    junk.endpoint = (uint64_t)(uintptr_t)endpoint;
    IS(WEFT_NO_REQUEST, weft_wait(&junk, NULL));
    HOLDS(junk.endpoint == 0 && junk.operation == 0);
    junk.endpoint = (uint64_t)(uintptr_t)endpoint;
    junk.operation = UINT64_MAX - 1;
    IS(WEFT_NO_REQUEST, weft_test(&junk, &flag, NULL));
    IS(WEFT_NULL, weft_iprobe(endpoint, rank, 1, 0, NULL, NULL));
    IS(WEFT_NULL, weft_mprobe(endpoint, rank, 1, 0, NULL, NULL));
    IS(WEFT_DEAD_HANDLE, weft_mrecv(NULL, NULL, 0, NULL));
    IS(WEFT_NULL, weft_region_register(endpoint, NULL, 8, WEFT_PUT, &region));
    IS(WEFT_NULL, weft_region_allocate(endpoint, 8, WEFT_PUT, NULL));
    IS(WEFT_BAD_ARGUMENT, weft_region_allocate(endpoint, SIZE_MAX, WEFT_PUT, &region));
    IS(WEFT_NULL, weft_put(endpoint, NULL, 0, &byte, 1));
    IS(WEFT_DEAD_HANDLE, weft_region_free(NULL));
    IS(WEFT_NULL, weft_group_new(endpoint, NULL, 2, &group));
    IS(WEFT_NULL, weft_group_all(endpoint, NULL));
    IS(WEFT_DEAD_HANDLE, weft_group_barrier(NULL));
    IS(WEFT_DEAD_HANDLE, weft_barrier(NULL));
    HOLDS(strcmp(weft_status_name(WEFT_DEAD_HANDLE), "WEFT_DEAD_HANDLE") == 0);
    HOLDS(strcmp(weft_status_name(12345), "WEFT_?") == 0);
    /* It has gone well with all of that. */
    GOOD(weft_barrier(endpoint));
}

enum { MESSAGES = 300 };

static void *talk(void *tag_at) {
    uint64_t tag = *(uint64_t *)tag_at;
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint64_t out = tag * 100000 + i, in;
        weft_request request;
        GOOD(weft_irecv(endpoint, before, tag, 0, &in, sizeof in, &request));
        GOOD(weft_send(endpoint, next, tag, &out, sizeof out));
        GOOD(weft_wait(&request, NULL));
        HOLDS(in == out);
    }
    return NULL;
}

static void *wait_too(void *request) {
    weft_status status = weft_wait(request, NULL);
    HOLDS(status == WEFT_OK || status == WEFT_NO_REQUEST);
    return (void *)(uintptr_t)(status == WEFT_OK);
}

static void *free_too(void *region) {
    weft_status status = weft_region_free(region);
    HOLDS(status == WEFT_OK || status == WEFT_DEAD_HANDLE || status == WEFT_BUSY);
    return (void *)(uintptr_t)(status == WEFT_OK);
}

static void *take_notice(void *region) {
    weft_notice notice;
    weft_status status = weft_region_wait_notice(region, &notice);
    HOLDS(status == WEFT_OK || status == WEFT_DEAD_HANDLE);
    return (void *)(uintptr_t)(status == WEFT_OK);
}

static pthread_t begin_thread(void *(*f)(void *), void *argument) {
    pthread_t thread;
    HOLDS(pthread_create(&thread, NULL, f, argument) == 0);
    return thread;
}

static uintptr_t end_thread(pthread_t thread) {
    void *result;
    HOLDS(pthread_join(thread, &result) == 0);
    return (uintptr_t)result;
}

/* Several threads with one handle. */
static void threads(void) {
    uint64_t tags[4] = {1, 2, 3, 4};
    pthread_t others[4];
    for (int i = 0; i < 4; i++)
        others[i] = begin_thread(talk, &tags[i]);
    for (int i = 0; i < 4; i++)
        end_thread(others[i]);

    for (int i = 0; i < 20; i++) {
        /* Two wait for one request, which is told to one. */
        char byte = 0, into;
        weft_request request, copy;
        GOOD(weft_irecv(endpoint, rank, 9, 0, &into, 1, &request));
        copy = request;
        others[0] = begin_thread(wait_too, &copy);
        GOOD(weft_send(endpoint, rank, 9, &byte, 1));
        uintptr_t was_here = (uintptr_t)wait_too(&request);
        HOLDS(was_here + end_thread(others[0]) == 1);

        /* Two free one region, and one of them may. */
        weft_region *region;
        weft_region_handle here;
        GOOD(weft_region_allocate(endpoint, 8, WEFT_PUT, &region));
        others[0] = begin_thread(free_too, region);
        was_here = (uintptr_t)free_too(region);
        HOLDS(was_here + end_thread(others[0]) == 1);

        /* One is freed under a thread that waits for it, or that is about to. */
        GOOD(weft_region_allocate(endpoint, 8, WEFT_PUT, &region));
        GOOD(weft_handle_of(region, &here));
        others[0] = begin_thread(take_notice, region);
        if (i % 2)
            usleep(2000);
        weft_status status = weft_region_free(region);
        HOLDS(status == WEFT_OK || status == WEFT_BUSY);
        if (status == WEFT_BUSY)
            GOOD(weft_put_with(endpoint, &here, 0, NULL, 0, 5));
        uintptr_t noticed = end_thread(others[0]);
        HOLDS(noticed == (status == WEFT_BUSY));
        if (status == WEFT_BUSY)
            GOOD(weft_region_free(region));
    }
    GOOD(weft_barrier(endpoint));
}

/* A child has no part in the job, and its parent goes on: peers write the memory that it registered
 * before, and not the child's. */
static void forked(void) {
    enum { LEN = 100000 };
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned char *memory = guarded(LEN, 1), *out = guarded(LEN, 1);
    weft_region *region;
    weft_region_handle here, there;
    weft_request request;
    GOOD(weft_region_register(endpoint, memory, LEN, WEFT_GET | WEFT_PUT, &region));
    GOOD(weft_handle_of(region, &here));
    GOOD(weft_isend(endpoint, before, 1, &here, sizeof here, &request));
    GOOD(weft_recv(endpoint, next, 1, 0, &there, sizeof there, NULL));
    GOOD(weft_wait(&request, NULL));
    for (unsigned orderly = 0; orderly < 2; orderly++) {
        int hold[2];
        HOLDS(pipe(hold) == 0);
        paint(memory, LEN, 99 + orderly);
        paint(out, LEN, rank + 10 * orderly);
        fflush(NULL);
        pid_t child = fork();
        HOLDS(child >= 0);
        if (child == 0) {
            char byte = 0;
            weft_job *own;
            close(hold[1]);
            IS(WEFT_FORKED, weft_put(endpoint, &there, 0, &byte, 1));
            SAYS(WEFT_FORKED, "forked off", weft_send(endpoint, rank, 1, &byte, 1));
            IS(WEFT_FORKED, weft_recv(endpoint, rank, 1, 0, &byte, 1, NULL));
            IS(WEFT_FORKED, weft_barrier(endpoint));
            IS(WEFT_FORKED, weft_endpoint_free(endpoint));
            IS(WEFT_FORKED, weft_job_free(job));
            IS(WEFT_FORKED, weft_job_single(&own));
            /* Its parent lets it go when the peer has written. */
            HOLDS(read(hold[0], &byte, 1) == 0);
            HOLDS(painted(memory, LEN, 99 + orderly));
            if (orderly)
                exit(0);
            _exit(0);
        }
        int status;
        close(hold[0]);
        /* All have their children. */
        GOOD(weft_barrier(endpoint));
        GOOD(weft_put(endpoint, &there, 0, out, LEN));
        GOOD(weft_barrier(endpoint));
        HOLDS(painted(memory, LEN, before + 10 * orderly));
        close(hold[1]);
        HOLDS(waitpid(child, &status, 0) == child);
        HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        GOOD(weft_barrier(endpoint));
    }
    GOOD(weft_region_free(region));
}

/* Rank 0 frees memory that all others write: none of them writes it afterwards, nor beside it. */
static void freed(void) {
    enum { LEN = 1 << 20, TIMES = 5 };
    unsigned char *memory = guarded(LEN, 1);
    paint(memory, LEN, rank);
    for (unsigned i = 0; i < TIMES; i++) {
        weft_region_handle there;
        if (rank == 0) {
            weft_region *region;
            weft_notice notice;
            GOOD(weft_region_register(endpoint, memory, LEN, WEFT_PUT, &region));
            GOOD(weft_handle_of(region, &there));
            GOOD(weft_broadcast(endpoint, 0, &there, sizeof there, WEFT_U8));
            for (uint32_t n = 0; n < 2 * size && size > 1; n++)
                GOOD(weft_region_wait_notice(region, &notice));
            GOOD(weft_region_free(region));
            paint(memory, LEN, i + 50);
            GOOD(weft_barrier(endpoint));
            HOLDS(painted(memory, LEN, i + 50));
        } else {
            weft_status status;
            GOOD(weft_broadcast(endpoint, 0, &there, sizeof there, WEFT_U8));
            do
                status = weft_put_with(endpoint, &there, 0, memory, LEN, i);
            while (status == WEFT_OK);
            SAYS(WEFT_REFUSED, "dropped", status);
            GOOD(weft_barrier(endpoint));
        }
    }
}

/* The last rank ends without a word, and the others are told whom they wait for. */
static void dead(void) {
    weft_region *region = NULL;
    weft_region_handle there;
    uint32_t last = size - 1;
    char word[16], byte;
    snprintf(word, sizeof word, "rank %" PRIu32 " ", last);
    HOLDS(size > 1);
    GOOD(weft_region_allocate(endpoint, 8, WEFT_GET | WEFT_PUT, &region));
    GOOD(weft_handle_of(region, &there));
    GOOD(weft_broadcast(endpoint, last, &there, sizeof there, WEFT_U8));
    GOOD(weft_barrier(endpoint));
    /* Others leave a barrier by its word, perhaps: so it goes when they have. */
    if (rank == last) {
        for (uint32_t others = 0; others < last; others++)
            GOOD(weft_recv(endpoint, WEFT_ANY_SOURCE, 4, 0, &byte, 1, NULL));
        _exit(0);
    }
    GOOD(weft_send(endpoint, last, 4, "x", 1));
    SAYS(WEFT_PEER_DEAD, word, weft_recv(endpoint, last, 5, 0, &byte, 1, NULL));
    SAYS(WEFT_PEER_DEAD, word, weft_put(endpoint, &there, 0, "x", 1));
    SAYS(WEFT_PEER_DEAD, word, weft_probe(endpoint, last, 5, 0, NULL));
    SAYS(WEFT_PEER_DEAD, word, weft_barrier(endpoint));
    SAYS(WEFT_PEER_DEAD, word, weft_allreduce(endpoint, WEFT_SUM, &byte, 1, WEFT_I8));
    GOOD(weft_region_free(region));
}

/* What is started and not waited for ends with the endpoint. */
static void left(void) {
    static char out[100], in[1 << 20];
    weft_request request;
    GOOD(weft_irecv(endpoint, WEFT_ANY_SOURCE, 0, WEFT_ANY_TAG, in, sizeof in, &request));
    GOOD(weft_isend(endpoint, rank, 5, out, sizeof out, &request));
    GOOD(weft_irecv(endpoint, rank, 6, 0, in, sizeof in, &request));
    GOOD(weft_barrier(endpoint));
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*play)(void);
    } roles[] = {{"arguments", arguments}, {"threads", threads}, {"forked", forked},
                 {"freed", freed},         {"dead", dead},       {"left", left}};
    begin();
    for (size_t i = 0; count == 2 && i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(words[1], roles[i].name) == 0) {
            roles[i].play();
            end();
            return 0;
        }
    }
    fprintf(stderr, "no such role\n");
    return 2;
}
