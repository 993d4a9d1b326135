"""`weft tune` and `WEFT_TUNE` on a card whose interrupts can be set, and where they cannot."""

import json
import re
import statistics
import time

from machines import Failed

TUNE = "weft tune --interface c0"
# What is set before, so that every change is one: far from where it starts after loading.
BEFORE = 200


def check(holds, what):
    if not holds:
        raise Failed(what)


def rx_usecs(machine):
    found = re.search(r"rx-usecs:\s+(\d+)", machine.run("ethtool -c c0"))
    check(found, f"{machine.name}: no rx-usecs")
    return int(found[1])


def await_usecs(machine, holds, what):
    for _ in range(100):
        now = rx_usecs(machine)
        if holds(now):
            return
        time.sleep(0.2)
    raise Failed(f"{what}: rx-usecs {now}")


def shown_and_set(machine):
    shown = json.loads(machine.run(f"{TUNE} --json").splitlines()[0])
    check(shown["rx_usecs"] == BEFORE and shown["driver"] == "e1000e", str(shown))
    said = machine.run(f"{TUNE} --rx-usecs 100 -- ethtool -c c0")
    check(re.search(r"rx-usecs:\s+100\b", said), said)
    check(f"rx-usecs 100 (was {BEFORE})" in said, said)
    check(rx_usecs(machine) == BEFORE, "not put back after a command")
    # The driver takes at most 10000.
    said = machine.run(f"{TUNE} --rx-usecs 20000 -- true || echo refused")
    check("takes no such value" in said and "refused" in said, said)
    check(rx_usecs(machine) == BEFORE, "a refused value has changed something")
    # It begins with the nearest of its own delays.
    said = machine.run(f"{TUNE} --adaptive -- sh -c 'sleep 1; ethtool -c c0'")
    check(f"rx-usecs 250 (was {BEFORE})" in said, said)
    check(rx_usecs(machine) == BEFORE, "not put back after following the load")
    # Answers that are waited for, a hundred in a second: each would come that much later.
    other = 11 - machine.number
    pings = f"ping -q -c 300 -i 0.01 10.8.0.{other}"
    said = machine.run(f"{TUNE} --adaptive -- sh -c '{pings} >/dev/null; ethtool -c c0'")
    check(re.search(r"rx-usecs:\s+(0|10)\b", said), f"it does not follow: {said}")
    check(rx_usecs(machine) == BEFORE, "not put back after following pings")


def however_it_ends(machine):
    for signal in ["INT", "TERM", "HUP", "KILL"]:
        machine.run(f"{TUNE} --rx-usecs 100 >/tmp/tune 2>&1 & echo $! >/tmp/tune.pid")
        await_usecs(machine, lambda now: now == 100, f"not set before {signal}")
        if signal == "INT":
            said = machine.run(f"{TUNE} --rx-usecs 50 -- true || true")
            check("another weft tune" in said, said)
        machine.run(f"kill -{signal} $(cat /tmp/tune.pid)")
        await_usecs(machine, lambda now: now == BEFORE, f"not put back after {signal}")


def in_a_job(machines, job):
    """`job`: with its variables, a command of two ranks that mostly wait for each other."""
    said = machines[0].run(f"WEFT_LOG=weft=info {job}")
    check("delay_us=0" in said, f"ranks that wait have no short delay: {said[-3000:]}")
    for machine in machines:
        await_usecs(machine, lambda now: now == BEFORE, f"{machine.name} after a job")


def killed_job(machines, job):
    machines[0].start(job)
    for machine in machines:
        # Only the first listens to commands now; whoever answers is asked.
        if machine is not machines[0]:
            await_usecs(machine, lambda now: now != BEFORE, f"{machine.name} is not set")
    machines[1].run("killall -9 stress")
    machines[0].finish(60)
    for machine in machines:
        await_usecs(machine, lambda now: now == BEFORE, f"{machine.name} after SIGKILL")


def interrupts(machines, model, mpi, stress):
    """`mpi` and `stress` make commands of jobs; see cards.py."""
    if model != "e1000e":
        said = machines[0].run(f"{TUNE} --rx-usecs 10 -- true || echo refused")
        check("c0: " in said and "refused" in said, said)
        said = machines[0].run(mpi(2, "patterns x 2000 lat 8", "WEFT_TUNE=adaptive"))
        check("interrupts stay as they are" in said, said)
        return
    for machine in machines:
        machine.run(f"ethtool -C c0 rx-usecs {BEFORE}")
        check(rx_usecs(machine) == BEFORE, "the driver rounds what the test begins with")
    shown_and_set(machines[0])
    however_it_ends(machines[0])
    in_a_job(machines, mpi(2, "patterns x 5000 lat 8", "WEFT_TUNE=adaptive"))
    killed_job(machines, stress(2, "WEFT_TUNE=adaptive WEFT_PEER_LIMIT_S=3", seconds=60))


def figures(machines, mpi):
    """Medians of three rounds, each way in turn: 8 bytes there and back, us; windows of 64 KiB,
    MB/s. With a delay at both ends, and followed from the longest on."""
    ways = {f"{usecs} us": (usecs, "") for usecs in (0, 30, 250)}
    ways["adaptive"] = (250, "WEFT_TUNE=adaptive")
    taken = {way: ([], []) for way in ways}
    for _ in range(3):
        for way, (usecs, variables) in ways.items():
            for machine in machines:
                machine.run(f"ethtool -C c0 rx-usecs {usecs}")
            job = mpi(2, "patterns x 1000 lat 8 bw 65536", variables)
            for line in machines[0].run(job).splitlines():
                if line.startswith("{"):
                    figure = json.loads(line)
                    is_lat = figure["bench"] == "lat"
                    value = figure["rtt_us"]["p50"] if is_lat else figure["bandwidth_mb_s"]
                    taken[way][0 if is_lat else 1].append(value)
    print(f"{'rx-usecs':10} {'8 B us':>8} {'64 KiB MB/s':>12}")
    for way, both in taken.items():
        lat, bw = map(statistics.median, both)
        print(f"{way:10} {lat:8.0f} {bw:12.1f}", flush=True)
    return True
