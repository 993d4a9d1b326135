/* Every call for the exchange of boundaries, by any number of ranks: a periodic plane of numbers
 * whose value tells their place, in strips of rows. */
#include "check.h"

enum { ROWS = 4, COLUMNS = 300, GHOSTS = 2, WIDE = COLUMNS + 2 * GHOSTS };

static const weft_axis axes[2] = {{ROWS, GHOSTS, GHOSTS}, {COLUMNS, GHOSTS, GHOSTS}};

static double value(long row, long column, int step) {
    long rows = (long)size * ROWS;
    row = (row + rows) % rows;
    column = (column + COLUMNS) % COLUMNS;
    return step * 1e6 + (double)row * 1000 + (double)column;
}

/* Own cells get their values, ghost cells -1; `pitch` numbers from a row to the next. */
static void fill(double *cells, long pitch, int step) {
    for (long r = -GHOSTS; r < ROWS + GHOSTS; r++)
        for (long c = -GHOSTS; c < COLUMNS + GHOSTS; c++) {
            int own = r >= 0 && r < ROWS && c >= 0 && c < COLUMNS;
            cells[(r + GHOSTS) * pitch + c + GHOSTS] =
                own ? value(rank * ROWS + r, c, step) : -1;
        }
}

static void compare(const double *cells, long pitch, int step, int corners) {
    for (long r = -GHOSTS; r < ROWS + GHOSTS; r++)
        for (long c = -GHOSTS; c < COLUMNS + GHOSTS; c++) {
            int inner = (r >= 0 && r < ROWS) || (c >= 0 && c < COLUMNS);
            if (inner || corners)
                HOLDS(cells[(r + GHOSTS) * pitch + c + GHOSTS] ==
                      value(rank * ROWS + r, c, step));
        }
}

static weft_plan *grid(void) {
    uint32_t processes[2] = {size, 1};
    bool periodic[2] = {true, true};
    weft_plan *plan;
    GOOD(weft_plan_grid(endpoint, 2, processes, periodic, &plan));
    return plan;
}

static weft_plan *named(void) {
    uint32_t up = (rank + size - 1) % size, down = (rank + 1) % size;
    weft_neighbour all[8] = {
        {{-1, 0}, up},  {{1, 0}, down},  {{0, -1}, rank}, {{0, 1}, rank},
        {{-1, -1}, up}, {{-1, 1}, up},   {{1, -1}, down}, {{1, 1}, down},
    };
    weft_plan *plan;
    GOOD(weft_plan_neighbours(endpoint, 2, all, 8, &plan));
    return plan;
}

/* An array of Weft's, one of the program's own with gaps behind its rows, and both together. */
static void exchanges(weft_plan *plan, int corners) {
    enum { PITCH = WIDE + 3 };
    size_t strides[2] = {PITCH * sizeof(double), sizeof(double)};
    size_t len = (ROWS + 2 * GHOSTS) * PITCH * sizeof(double);
    double *own = memory_of(len);
    void *memory;
    int allocated, given, both[2], one, two;
    GOOD(weft_plan_corners(plan, corners));
    GOOD(weft_plan_array(plan, NULL, 2, axes, sizeof(double), NULL, &allocated, &memory));
    GOOD(weft_plan_array(plan, own, 2, axes, sizeof(double), strides, &given, NULL));
    both[0] = allocated, both[1] = given;
    GOOD(weft_plan_stage(plan, both, 2, &two));
    GOOD(weft_plan_stage(plan, &given, 1, &one));
    GOOD(weft_plan_build(plan));
    for (int step = 0; step < 6; step++) {
        bool has_ended = false;
        fill(memory, WIDE, step);
        fill(own, PITCH, step + 10);
        GOOD(weft_plan_start(plan, two));
        SAYS(WEFT_HALO, "under way", weft_plan_start(plan, two));
        while (weft_plan_wait_timeout(plan, two, 1000) == WEFT_TIMED_OUT)
            ;
        GOOD(weft_plan_wait(plan, two));
        compare(memory, WIDE, step, corners != WEFT_CORNERS_NO);
        compare(own, PITCH, step + 10, corners != WEFT_CORNERS_NO);
        fill(own, PITCH, step + 20);
        GOOD(weft_plan_start(plan, one));
        while (!has_ended)
            GOOD(weft_plan_test(plan, one, &has_ended));
        compare(own, PITCH, step + 20, corners != WEFT_CORNERS_NO);
        fill(own, PITCH, step + 30);
        GOOD(weft_plan_exchange(plan, one));
        compare(own, PITCH, step + 30, corners != WEFT_CORNERS_NO);
    }
    GOOD(weft_plan_free(plan));
    IS(WEFT_DEAD_HANDLE, weft_plan_start(plan, one));
    free(own);
}

static void misuse(void) {
    weft_plan *plan;
    int array, stage, none = 7;
    bool has_ended;
    uint32_t processes[2] = {size + 1, 1};
    bool periodic[2] = {false, false};
    double cell;
    IS(WEFT_DEAD_HANDLE, weft_plan_grid(NULL, 2, processes, periodic, &plan));
    IS(WEFT_NULL, weft_plan_grid(endpoint, 2, NULL, periodic, &plan));
    IS(WEFT_NULL, weft_plan_grid(endpoint, 2, processes, periodic, NULL));
    SAYS(WEFT_HALO, "5 axes", weft_plan_grid(endpoint, 5, processes, periodic, &plan));
    SAYS(WEFT_HALO, "5 axes", weft_plan_neighbours(endpoint, 5, NULL, 0, &plan));
    IS(WEFT_NULL, weft_plan_neighbours(endpoint, 2, NULL, 1, &plan));

    GOOD(weft_plan_grid(endpoint, 2, processes, periodic, &plan));
    IS(WEFT_BAD_ARGUMENT, weft_plan_corners(plan, 9));
    SAYS(WEFT_HALO, "5 axes", weft_plan_array(plan, NULL, 5, axes, 8, NULL, &array, NULL));
    SAYS(WEFT_HALO, "0 bytes", weft_plan_array(plan, NULL, 2, axes, 0, NULL, &array, NULL));
    IS(WEFT_NULL, weft_plan_array(plan, &cell, 2, NULL, 8, NULL, &array, NULL));
    GOOD(weft_plan_array(plan, NULL, 2, axes, 8, NULL, &array, NULL));
    SAYS(WEFT_HALO, "no array 7", weft_plan_stage(plan, &none, 1, &stage));
    GOOD(weft_plan_stage(plan, &array, 1, &stage));
    SAYS(WEFT_HALO, "not built", weft_plan_start(plan, stage));
    SAYS(WEFT_HALO, "processes, and the job", weft_plan_build(plan));
    SAYS(WEFT_HALO, "could not be built", weft_plan_build(plan));
    SAYS(WEFT_HALO, "not built", weft_plan_test(plan, stage, &has_ended));
    GOOD(weft_plan_free(plan));

    plan = grid();
    GOOD(weft_plan_build(plan));
    SAYS(WEFT_HALO, "is built", weft_plan_build(plan));
    SAYS(WEFT_HALO, "is built", weft_plan_corners(plan, WEFT_CORNERS_TURNS));
    SAYS(WEFT_HALO, "no stage 7", weft_plan_wait(plan, 7));
    SAYS(WEFT_HALO, "no stage -1", weft_plan_exchange(plan, -1));
    GOOD(weft_plan_free(plan));
}

/* Ranks that do not agree are all told what both have, and nobody touches an array. */
static void disagree(void) {
    weft_plan *plan = grid();
    weft_axis mine[2] = {{ROWS, 1, 1}, {COLUMNS + rank, 0, 0}};
    size_t len = (ROWS + 2) * (COLUMNS + rank) * 8;
    unsigned char *cells = guarded(len, 1);
    int array, stage;
    paint(cells, len, rank);
    GOOD(weft_plan_array(plan, cells, 2, mine, 8, NULL, &array, NULL));
    GOOD(weft_plan_stage(plan, &array, 1, &stage));
    if (size == 1)
        GOOD(weft_plan_build(plan));
    else
        SAYS(WEFT_HALO, "1 x 300 cells", weft_plan_build(plan));
    HOLDS(painted(cells, len, rank));
    GOOD(weft_plan_free(plan));
}

/* Arrays without a cell, of Weft's and of the program's own, with memory and without. */
static void empty(void) {
    weft_plan *plan = grid();
    weft_axis none[2] = {{ROWS, 1, 1}, {0, 0, 0}};
    unsigned char *byte = guarded(1, 1);
    void *memory = NULL;
    int arrays[3], full, stages[2];
    double *cells;
    *byte = 7;
    GOOD(weft_plan_array(plan, NULL, 2, none, 8, NULL, &arrays[0], &memory));
    HOLDS(memory);
    /* Its end is where memory ends. */
    GOOD(weft_plan_array(plan, byte + 1, 2, none, 8, NULL, &arrays[1], NULL));
    GOOD(weft_plan_array(plan, NULL, 2, axes, 8, NULL, &full, (void **)&cells));
    arrays[2] = full;
    GOOD(weft_plan_stage(plan, arrays, 2, &stages[0]));
    GOOD(weft_plan_stage(plan, arrays, 3, &stages[1]));
    GOOD(weft_plan_build(plan));
    for (int step = 0; step < 3; step++) {
        GOOD(weft_plan_exchange(plan, stages[0]));
        fill(cells, WIDE, step);
        GOOD(weft_plan_exchange(plan, stages[1]));
        compare(cells, WIDE, step, 1);
    }
    HOLDS(*byte == 7);
    GOOD(weft_plan_free(plan));
}

/* Neighbours that start different stages are told, and do not wait for ever. */
static void another_order(void) {
    weft_plan *plan = grid();
    int array, stages[2];
    void *memory;
    GOOD(weft_plan_array(plan, NULL, 2, axes, 8, NULL, &array, &memory));
    GOOD(weft_plan_stage(plan, &array, 1, &stages[0]));
    GOOD(weft_plan_stage(plan, &array, 1, &stages[1]));
    GOOD(weft_plan_build(plan));
    fill(memory, WIDE, 1);
    GOOD(weft_plan_exchange(plan, stages[0]));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_plan_start(plan, stages[rank % 2]));
    if (rank < 2)
        SAYS(WEFT_HALO, "the same stages", weft_plan_wait(plan, stages[rank % 2]));
    else
        for (weft_status status = WEFT_TIMED_OUT; status != WEFT_HALO;) {
            status = weft_plan_wait_timeout(plan, stages[rank % 2], 1000000);
            HOLDS(status == WEFT_TIMED_OUT || status == WEFT_HALO);
        }
    HOLDS(strstr(weft_error_text(), "the same stages"));
    SAYS(WEFT_HALO, "the same stages", weft_plan_start(plan, stages[0]));
    GOOD(weft_barrier(endpoint));
    GOOD(weft_plan_free(plan));
}

int main(void) {
    begin();
    for (int corners = WEFT_CORNERS_AUTO; corners <= WEFT_CORNERS_NO; corners++) {
        exchanges(grid(), corners);
        exchanges(named(), corners);
    }
    misuse();
    disagree();
    empty();
    if (size % 2 == 0)
        another_order();
    end();
    return 0;
}
