/* Memory that lies between pages which nobody may touch: whatever peers ask for, and whatever goes
 * wrong, no byte beside it is read or written. By two ranks or more. */
#include "check.h"

static uint32_t next, before;

static void swap_handles(weft_region *region, weft_region_handle *there) {
    weft_region_handle here;
    weft_request request;
    GOOD(weft_handle_of(region, &here));
    GOOD(weft_isend(endpoint, before, 1, &here, sizeof here, &request));
    GOOD(weft_recv(endpoint, next, 1, 0, there, sizeof *there, NULL));
    GOOD(weft_wait(&request, NULL));
}

/* What lies outside is refused, whatever its offset and length. */
static void refused(const weft_region_handle *there, size_t len, unsigned char *bytes) {
    uint64_t at[] = {1, len - 1, len, len + 1, 1ull << 32, UINT64_MAX - 7, UINT64_MAX};
    uint64_t number = 1, old;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        /* Longer than what is left there. */
        size_t some = at[i] < len ? len - at[i] + 1 : 1;
        IS(WEFT_REGION, weft_put(endpoint, there, at[i], bytes, some));
        IS(WEFT_REGION, weft_get(endpoint, there, at[i], bytes, some));
        IS(WEFT_REGION, weft_put_with(endpoint, there, at[i], bytes, some, 7));
        if (at[i] + 8 > len || at[i] + 8 < at[i])
            IS(WEFT_REGION, weft_fetch_add(endpoint, there, at[i], WEFT_U64, &number, &old));
    }
    IS(WEFT_REGION, weft_fetch_add(endpoint, there, 3, WEFT_U64, &number, &old));
}

/* A handle that lies about the length names no byte outside either: the owner says so, also of what
 * is long enough to be fetched. */
static void forged(weft_region_handle there, size_t len) {
    enum { SOME = 70000 };
    uint64_t more = 1ull << 40, number = 1, old, at[] = {len - len % 8, len + 8, 1ull << 32};
    unsigned char *bytes = guarded(SOME, 1);
    /* The length follows a mark, the rank and the key. */
    memcpy(there.bytes + 16, &more, sizeof more);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        for (size_t some = 16; some <= SOME; some += SOME - 16) {
            SAYS(WEFT_REFUSED, "inside", weft_put(endpoint, &there, at[i], bytes, some));
            SAYS(WEFT_REFUSED, "inside", weft_get(endpoint, &there, at[i], bytes, some));
            IS(WEFT_REFUSED, weft_put_with(endpoint, &there, at[i], bytes, some, 7));
        }
        IS(WEFT_REFUSED, weft_fetch_add(endpoint, &there, at[i] + 8, WEFT_U64, &number, &old));
    }
}

static void regions(size_t len, int at_end) {
    unsigned char *theirs = guarded(len, at_end), *own = guarded(len, at_end);
    weft_region_handle there;
    weft_region *region;
    GOOD(weft_region_register(endpoint, theirs, len, WEFT_GET | WEFT_PUT, &region));
    swap_handles(region, &there);
    paint(theirs, len, 99);
    GOOD(weft_barrier(endpoint));
    refused(&there, len, own);
    forged(there, len);
    GOOD(weft_barrier(endpoint));
    HOLDS(painted(theirs, len, 99));
    GOOD(weft_barrier(endpoint));
    /* All of it, and its last byte. */
    paint(own, len, rank);
    GOOD(weft_put(endpoint, &there, 0, own, len));
    GOOD(weft_put(endpoint, &there, len - 1, own + len - 1, 1));
    GOOD(weft_put(endpoint, &there, len, own, 0));
    GOOD(weft_barrier(endpoint));
    HOLDS(painted(theirs, len, before));
    memset(own, 0, len);
    GOOD(weft_get(endpoint, &there, 0, own, len));
    HOLDS(painted(own, len, rank));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_region_free(region));
}

/* A message that is longer than the memory for it fills that, and nothing else. */
static void truncated(size_t len) {
    unsigned char *into = guarded(len, 1), *from = guarded(len + 1000, 1);
    weft_request request;
    weft_envelope envelope;
    paint(from, len + 1000, rank);
    GOOD(weft_irecv(endpoint, before, 5, 0, into, len, &request));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_send(endpoint, next, 5, from, len + 1000));
    IS(WEFT_TRUNCATED, weft_wait(&request, &envelope));
    HOLDS(envelope.len == len + 1000 && painted(into, len, before));
    GOOD(weft_barrier(endpoint));
}

/* No number, with a payload. */
static double none(uint64_t payload) {
    uint64_t bits = 0x7ff8000000000000 | payload;
    double it;
    memcpy(&it, &bits, sizeof it);
    return it;
}

enum { ROWS = 5, COLUMNS = 37, WIDE = COLUMNS + 2 };

/* An array that fills its pages to their end, of numbers that are none: what comes is what was
 * sent, bit by bit, and cells that nobody fills stay. */
static void boundaries(int at_end) {
    static const weft_axis axes[2] = {{ROWS, 1, 1}, {COLUMNS, 1, 1}};
    size_t len = (ROWS + 2) * WIDE * sizeof(double);
    double *cells = (double *)guarded(len, at_end);
    uint32_t processes[2] = {size, 1};
    bool periodic[2] = {true, false};
    int array, stage;
    weft_plan *plan;
    for (int i = 0; i < (ROWS + 2) * WIDE; i++)
        cells[i] = none(rank);
    GOOD(weft_plan_grid(endpoint, 2, processes, periodic, &plan));
    GOOD(weft_plan_array(plan, cells, 2, axes, sizeof(double), NULL, &array, NULL));
    GOOD(weft_plan_stage(plan, &array, 1, &stage));
    GOOD(weft_plan_build(plan));
    double kept = cells[3 * WIDE];
    GOOD(weft_plan_exchange(plan, stage));
    double wanted = none(before);
    HOLDS(memcmp(&cells[1], &wanted, sizeof wanted) == 0);
    wanted = none(next);
    HOLDS(memcmp(&cells[(ROWS + 1) * WIDE + 1], &wanted, sizeof wanted) == 0);
    HOLDS(memcmp(&cells[3 * WIDE], &kept, sizeof kept) == 0);
    GOOD(weft_barrier(endpoint));
    GOOD(weft_plan_free(plan));
}

int main(void) {
    size_t lengths[] = {16, 4096, 4104, 300000};
    begin();
    HOLDS(size > 1);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        regions(lengths[i], 0);
        regions(lengths[i], 1);
        truncated(lengths[i]);
    }
    boundaries(0);
    boundaries(1);
    end();
}
