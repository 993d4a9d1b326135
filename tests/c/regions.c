/* Every call of regions, by any number of ranks: each uses the memory of the next. */
#include "check.h"

enum { LEN = 300000, NUMBERS = 64 };

static weft_region_handle there;
static uint32_t next, before;

/* Gives the rank before this one the handle of this one's region, and gets the next one's. */
static void swap_handles(weft_region *region) {
    weft_region_handle here;
    weft_request request;
    GOOD(weft_handle_of(region, &here));
    GOOD(weft_isend(endpoint, before, 1, &here, sizeof here, &request));
    GOOD(weft_recv(endpoint, next, 1, 0, &there, sizeof there, NULL));
    GOOD(weft_wait(&request, NULL));
}

static void bytes(weft_region *region, const unsigned char *memory) {
    static unsigned char out[LEN], in[LEN];
    weft_handle_info info;
    swap_handles(region);
    GOOD(weft_handle_read(&there, &info));
    HOLDS(info.rank == next && info.len == LEN && info.rights == (WEFT_GET | WEFT_PUT));

    paint(out, LEN, rank);
    GOOD(weft_put(endpoint, &there, 0, out, LEN));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_region_read(region, 0, in, LEN));
    HOLDS(painted(in, LEN, before));
    HOLDS(!memory || painted(memory, LEN, before));
    memset(in, 0, LEN);
    GOOD(weft_get(endpoint, &there, 0, in, LEN));
    HOLDS(painted(in, LEN, rank));
    GOOD(weft_barrier(endpoint));

    /* The owner's own bytes. */
    uint32_t word = rank + 100;
    GOOD(weft_region_write(region, 40, &word, sizeof word));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_get(endpoint, &there, 40, &word, sizeof word));
    HOLDS(word == next + 100);
    GOOD(weft_barrier(endpoint));
}

static void started(weft_region *region) {
    static unsigned char out[LEN], in[LEN];
    weft_request requests[3];
    paint(out, LEN, rank + 5);
    GOOD(weft_iput(endpoint, &there, 0, out, 1000, &requests[0]));
    GOOD(weft_iput_with(endpoint, &there, 1000, out + 1000, LEN - 1000, 4711, &requests[1]));
    GOOD(weft_wait_all(requests, 2, NULL));
    GOOD(weft_iget(endpoint, &there, 0, in, LEN, &requests[2]));
    GOOD(weft_wait(&requests[2], NULL));
    HOLDS(painted(in, LEN, rank + 5));

    weft_notice notice;
    bool found;
    GOOD(weft_region_wait_notice(region, &notice));
    HOLDS(notice.source == before && notice.value == 4711 && notice.offset == 1000);
    HOLDS(notice.len == LEN - 1000);
    GOOD(weft_region_try_notice(region, &found, &notice));
    HOLDS(!found);
    IS(WEFT_TIMED_OUT, weft_region_wait_notice_timeout(region, 2000000, &notice));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_put_with(endpoint, &there, 0, NULL, 0, 12));
    GOOD(weft_region_wait_notice_timeout(region, UINT64_MAX, &notice));
    HOLDS(notice.value == 12 && notice.len == 0);

    /* A flush is the end of what nobody waits for. */
    GOOD(weft_barrier(endpoint));
    paint(out, LEN, rank + 6);
    GOOD(weft_iput(endpoint, &there, 0, out, LEN, &requests[0]));
    GOOD(weft_detach(&requests[0]));
    GOOD(weft_flush(endpoint, next));
    GOOD(weft_iput(endpoint, &there, 0, out, 10, &requests[0]));
    GOOD(weft_detach(&requests[0]));
    GOOD(weft_flush_all(endpoint));
    GOOD(weft_get(endpoint, &there, 0, in, LEN));
    HOLDS(painted(in, LEN, rank + 6));
    GOOD(weft_barrier(endpoint));

    /* What comes after a fence is done after what was before, though it is short. */
    for (unsigned i = 0; i < 10; i++) {
        paint(out, LEN, rank + i);
        GOOD(weft_iput(endpoint, &there, 0, out, LEN, &requests[0]));
        GOOD(weft_fence(endpoint, next));
        GOOD(weft_put_with(endpoint, &there, 0, out, 0, i));
        GOOD(weft_region_wait_notice(region, &notice));
        HOLDS(notice.value == i);
        GOOD(weft_region_read(region, 0, in, LEN));
        HOLDS(painted(in, LEN, before + i));
        GOOD(weft_wait(&requests[0], NULL));
        GOOD(weft_barrier(endpoint));
    }
    IS(WEFT_DEAD_HANDLE, weft_fence(NULL, next));
}

/* All ranks change the numbers of rank 0. */
static void numbers(void) {
    weft_region *region = NULL;
    weft_region_handle at;
    GOOD(weft_region_allocate(endpoint, NUMBERS * 8, WEFT_GET | WEFT_PUT, &region));
    GOOD(weft_handle_of(region, &at));
    GOOD(weft_broadcast(endpoint, 0, &at, sizeof at, WEFT_U8));
    GOOD(weft_barrier(endpoint));
    for (int i = 0; i < 50; i++) {
        uint64_t one = 1, former;
        GOOD(weft_fetch_add(endpoint, &at, 0, WEFT_U64, &one, &former));
        HOLDS(former < 50 * size);
        double half = 0.5;
        GOOD(weft_accumulate(endpoint, &at, 8, WEFT_SUM, WEFT_F64, 1, &half));
    }
    GOOD(weft_barrier(endpoint));
    uint64_t counter;
    double sum;
    GOOD(weft_fetch_and_op(endpoint, &at, 0, WEFT_READ, WEFT_U64, 1, NULL, &counter));
    GOOD(weft_fetch_and_op(endpoint, &at, 8, WEFT_READ, WEFT_F64, 1, NULL, &sum));
    HOLDS(counter == 50 * size && sum == 25.0 * size);

    /* Each in its turn, by what is there. */
    uint32_t mine = rank, after = rank + 1, former;
    do
        GOOD(weft_compare_swap(endpoint, &at, 16, WEFT_U32, &mine, &after, &former));
    while (former != mine);
    GOOD(weft_barrier(endpoint));
    GOOD(weft_fetch_and_op(endpoint, &at, 16, WEFT_READ, WEFT_U32, 1, NULL, &former));
    HOLDS(former == size);

    int16_t operands[4] = {-5, 10, (int16_t)rank, 3}, were[4];
    int16_t comparands[4] = {0, 0, 0, 0};
    weft_request request;
    GOOD(weft_ifetch_and_op(endpoint, &at, 32, WEFT_MAX, WEFT_I16, 4, operands, were, &request));
    GOOD(weft_wait(&request, NULL));
    HOLDS(were[0] == 0 && (were[1] == 0 || were[1] == 10) && were[2] < (int16_t)size);
    GOOD(weft_iaccumulate(endpoint, &at, 40, WEFT_BIT_OR, WEFT_I16, 4, operands, &request));
    GOOD(weft_wait(&request, NULL));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_compare_and_op(endpoint, &at, 32, WEFT_SWAP_IF_LESS, WEFT_I16, 4, comparands,
                             operands, were));
    HOLDS(were[0] == 0 && were[1] >= 3 && were[3] >= 3);

    /* The second finds what the first has put there. */
    uint32_t own = 64 + 4 * rank, zero = 0;
    for (uint32_t found = 0, i = 0; i < 2; i++) {
        GOOD(weft_icompare_and_op(endpoint, &at, own, WEFT_SWAP_IF_EQUAL, WEFT_U32, 1, &zero,
                                  &after, &found, &request));
        GOOD(weft_wait(&request, NULL));
        HOLDS(found == i * after);
    }

    IS(WEFT_REGION, weft_fetch_add(endpoint, &at, 4, WEFT_U64, &counter, &counter));
    IS(WEFT_REGION, weft_accumulate(endpoint, &at, 0, WEFT_BIT_OR, WEFT_F64, 1, &sum));
    IS(WEFT_BAD_ARGUMENT, weft_accumulate(endpoint, &at, 0, 99, WEFT_F64, 1, &sum));
    IS(WEFT_BAD_ARGUMENT, weft_accumulate(endpoint, &at, 0, WEFT_SUM, 0, 1, &sum));
    IS(WEFT_REGION, weft_fetch_and_op(endpoint, &at, 0, WEFT_READ, WEFT_U8, 513, NULL, operands));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_region_free(region));
}

static void refused(void) {
    weft_region *region;
    char memory[64], out[64] = {0};
    GOOD(weft_region_register(endpoint, memory, sizeof memory, WEFT_GET, &region));
    swap_handles(region);
    SAYS(WEFT_REGION, "without the right to put", weft_put(endpoint, &there, 0, out, 1));
    SAYS(WEFT_REGION, "not all inside", weft_get(endpoint, &there, 60, out, 5));
    SAYS(WEFT_REGION, "not all inside", weft_get(endpoint, &there, UINT64_MAX, out, 5));
    IS(WEFT_REGION, weft_region_read(region, 64, out, 1));
    IS(WEFT_REGION, weft_region_write(region, 0, out, 65));
    SAYS(WEFT_BUSY, "an endpoint cannot be freed", weft_endpoint_free(endpoint));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_region_free(region));
    IS(WEFT_DEAD_HANDLE, weft_region_free(region));
    GOOD(weft_barrier(endpoint));
    SAYS(WEFT_REFUSED, "dropped", weft_get(endpoint, &there, 0, out, 1));
    /* Nobody waits for it: the flush tells. */
    weft_request request;
    GOOD(weft_iget(endpoint, &there, 0, out, 1, &request));
    GOOD(weft_detach(&request));
    IS(WEFT_REFUSED, weft_flush(endpoint, next));
    GOOD(weft_flush(endpoint, next));

    there.bytes[0] ^= 1;
    SAYS(WEFT_REGION, "no handle", weft_put(endpoint, &there, 0, out, 1));
    weft_handle_info info;
    IS(WEFT_REGION, weft_handle_read(&there, &info));
    IS(WEFT_REGION, weft_region_allocate(endpoint, 8, 0, &region));
    IS(WEFT_BAD_ARGUMENT, weft_region_allocate(endpoint, 8, 4, &region));
    GOOD(weft_barrier(endpoint));
}

int main(void) {
    begin();
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    weft_region *region;
    GOOD(weft_region_allocate(endpoint, LEN, WEFT_GET | WEFT_PUT, &region));
    bytes(region, NULL);
    started(region);
    GOOD(weft_region_free(region));

    unsigned char *memory = memory_of(LEN);
    memset(memory, 0, LEN);
    GOOD(weft_region_register(endpoint, memory, LEN, WEFT_GET | WEFT_PUT, &region));
    bytes(region, memory);
    started(region);
    GOOD(weft_region_free(region));
    free(memory);
    numbers();
    refused();
    end();
    return 0;
}
