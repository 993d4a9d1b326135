"""A message there and back between two ranks, by Weft's own interface, as `weft bench lat` does it:
weft run -n 2 [--lab nodes=2] -- python native_ping.py [BYTES [TIMES]]

Rank 0 prints one JSON object: how long there and back takes (us), and what that makes one way."""

import json
import os
import sys
import time

import weft

size = int(sys.argv[1]) if len(sys.argv) > 1 else 8
times = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
if times < 10:
    sys.exit("native_ping.py: at least 10 times")
TAG = 1

with weft.Endpoint(weft.Job.from_env()) as endpoint:
    if endpoint.size != 2:
        sys.exit("native_ping.py is for two ranks: weft run -n 2 -- python native_ping.py")
    # Each rank on a processor of its own, as `weft bench lat` has them.
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[endpoint.rank % len(processors)]})
    peer = 1 - endpoint.rank
    data, into = bytearray(size), bytearray(size)
    clock, ends_ns = time.perf_counter_ns, []
    # The first trips find their way, and are not counted.
    for _ in range(times // 10 + times):
        if endpoint.rank == 0:
            endpoint.send(peer, TAG, data)
            endpoint.recv(peer, TAG, into)
            ends_ns.append(clock())
        else:
            endpoint.recv(peer, TAG, into)
            endpoint.send(peer, TAG, data)
    if endpoint.rank == 0:
        ends_ns = ends_ns[-times - 1 :]
        trips_us = sorted((end - begun) / 1000 for begun, end in zip(ends_ns, ends_ns[1:]))
        half = trips_us[len(trips_us) // 2]
        print(
            json.dumps(
                {
                    "bench": "lat",
                    "by": "python",
                    "ranks": 2,
                    "bytes": size,
                    "rtt_us": {
                        "min": trips_us[0],
                        "p50": half,
                        "p99": trips_us[len(trips_us) * 99 // 100],
                        "mean": sum(trips_us) / len(trips_us),
                    },
                    "bandwidth_mb_s": 2 * size / half,
                }
            )
        )
