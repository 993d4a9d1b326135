"""A message there and back between two ranks, by Weft's own interface, as `weft bench lat` does it:
weft run -n 2 [--lab nodes=2] -- python native_ping.py [BYTES [TIMES]]

Rank 0 prints one JSON object: how long there and back takes (us), and what that makes one way."""

import json
import sys
import time

import weft

size = int(sys.argv[1]) if len(sys.argv) > 1 else 8
times = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
TAG = 1

with weft.Endpoint(weft.Job.from_env()) as endpoint:
    if endpoint.size != 2:
        sys.exit("native_ping.py is for two ranks: weft run -n 2 -- python native_ping.py")
    peer = 1 - endpoint.rank
    data, into = bytearray(size), bytearray(size)
    trips_us = []
    # The first ones find their way, and are not counted.
    for trip in range(-times // 10, times):
        begun = time.perf_counter_ns()
        if endpoint.rank == 0:
            endpoint.send(peer, TAG, data)
            endpoint.recv(peer, TAG, into)
        else:
            endpoint.recv(peer, TAG, into)
            endpoint.send(peer, TAG, data)
        if trip >= 0:
            trips_us.append((time.perf_counter_ns() - begun) / 1000)
    if endpoint.rank == 0:
        trips_us.sort()
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
