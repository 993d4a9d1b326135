"""A wave on a square membrane, cut into blocks whose edges the ranks exchange by a plan, while they
compute what needs none of them: weft run -n 4 [--lab nodes=2] -- python wave.py [POINTS [STEPS]]

Rank 0 prints how long a step takes, and how much of it is waiting for the neighbours."""

import math
import sys
import time

import numpy as np
import weft

points = int(sys.argv[1]) if len(sys.argv) > 1 else 256
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
if steps < 1:
    sys.exit("wave.py: at least 1 step")
#: (c dt / h)**2: the scheme is stable up to 1/2.
COURANT2 = 0.4
#: Half waves along y and along x.
MODE = (2, 3)


def advance(now, new, rows, columns):
    """One time step of some cells; `new` has those of the step before `now`."""
    (y, to_y), (x, to_x) = rows, columns
    here = now[y:to_y, x:to_x]
    around = now[y - 1 : to_y - 1, x:to_x] + now[y + 1 : to_y + 1, x:to_x]
    around += now[y:to_y, x - 1 : to_x - 1] + now[y:to_y, x + 1 : to_x + 1]
    box = new[y:to_y, x:to_x]
    box *= -1
    box += 2 * here + COURANT2 * (around - 4 * here)


def parts(cells):
    """The first, the middle and the last of the own cells along an axis with one ghost layer."""
    last = max(cells, 2)
    return (1, 2), (2, last), (last, cells + 1)


with weft.Endpoint(weft.Job.from_env()) as endpoint:
    ranks = endpoint.size
    down = max(n for n in range(1, math.isqrt(ranks) + 1) if ranks % n == 0)
    processes = (down, ranks // down)
    if points < processes[1]:
        sys.exit(f"wave.py: at least {processes[1]} points for {ranks} ranks")
    place = divmod(endpoint.rank, processes[1])
    first = [points * at // n for at, n in zip(place, processes)]
    shape = [points * (at + 1) // n - begin for at, n, begin in zip(place, processes, first)]

    with weft.Plan(endpoint, processes, corners="no") as plan:
        arrays = [plan.array(shape, "float64", ghosts=1) for _ in range(2)]
        stages = [plan.stage([array]) for array in arrays]
        plan.build()
        fields = [np.asarray(array) for array in arrays]

        # Beyond the walls the ghost cells stay 0. What the scheme makes of this wave is known.
        angles = [math.pi * mode / (points + 1) for mode in MODE]
        turn = 2 * math.asin(math.sqrt(COURANT2 * sum(math.sin(a / 2) ** 2 for a in angles)))
        y, x = (
            np.sin(angle * np.arange(begin + 1, begin + cells + 1))
            for angle, begin, cells in zip(angles, first, shape)
        )
        mode = np.outer(y, x)
        fields[0][1:-1, 1:-1] = mode
        fields[1][1:-1, 1:-1] = mode * math.cos(turn)

        top, middle_y, bottom = parts(shape[0])
        left, middle_x, right = parts(shape[1])
        whole = (1, shape[1] + 1)
        waited_s, begun = 0.0, time.perf_counter()
        for step in range(steps):
            # The older one becomes the newer one.
            now, new = fields[step % 2], fields[1 - step % 2]
            plan.start(stages[step % 2])
            advance(now, new, middle_y, middle_x)
            wait_begun = time.perf_counter()
            plan.wait(stages[step % 2])
            waited_s += time.perf_counter() - wait_begun
            for rows, columns in (
                (top, whole),
                (bottom, whole),
                (middle_y, left),
                (middle_y, right),
            ):
                advance(now, new, rows, columns)
        took_s = time.perf_counter() - begun

        exact = mode * math.cos(turn * steps)
        off = np.abs(fields[steps % 2][1:-1, 1:-1] - exact).max()
        worst = np.array([off, took_s, waited_s])
        endpoint.allreduce(weft.AtomicOp.Max, worst)
        assert worst[0] < 1e-9, worst[0]
        if endpoint.rank == 0:
            step_us, wait_us = worst[1:] / steps * 1e6
            print(
                f"{points} x {points} points, {steps} steps by {processes[0]} x {processes[1]} "
                f"ranks: {step_us:.1f} us a step, {wait_us:.1f} us of it waiting; at most "
                f"{worst[0]:.1e} off"
            )
