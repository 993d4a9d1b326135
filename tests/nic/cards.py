#!/usr/bin/env python3
"""Weft over the drivers of real network cards, in machines that QEMU plays.

usage: cards.py IMAGE [WORD...]    steps whose name has one of the words in it, or all
       cards.py IMAGE --figures    MPICH on Weft beside MPICH over TCP, for each card
       cards.py IMAGE --tune       MPICH on Weft by how long e1000e waits before it interrupts

IMAGE is the directory that image.sh has written."""

import json
import os
import re
import statistics
import sys
import tempfile
import time

import tune
from machines import Failed, Machines

MODELS = ["e1000e", "virtio-net-pci", "vmxnet3", "rtl8139"]
LINKS = ["packet", "udp", "tso"]
# The machines' processors and the cards that QEMU plays share the processors of one machine: who
# looks on while waiting keeps the cards from working.
SHARED = "WEFT_SPIN_US=0"
# What is said of the size of frames, at most once.
SIZES = "frames of "
# What is said of a link that loses frames.
LOSS = "loses more than one frame in fifty"


def mpi(ranks, program, variables="", options=""):
    hosts = ",".join(f"m{rank}" for rank in range(ranks))
    return f"{variables} weft mpirun -n {ranks} --hosts {hosts} {options} -- {program}"


def stress(ranks, variables="", seconds=2):
    """Messages of all kinds whose contents are checked."""
    return mpi(ranks, f"stress --seconds {seconds} --limit 100", f"{SHARED} {variables}")


def native(what, variables=""):
    return f"{SHARED} {variables} weft run -n 2 --hosts m0,m1 -- weft bench {what}"


def begin(machine, variables="", seconds=6):
    """Starts a job of two, and comes back once they talk."""
    machine.start(stress(2, f"WEFT_LOG=weft=debug {variables}", seconds))
    said, found = machine.until(rb"(connected.*peer=)|\n\001\d+\n", 100)
    check(found[1], f"the job has ended before they talk: {said[-3000:]}")
    time.sleep(1)


def warnings(said):
    return [line for line in said.splitlines() if " WARN " in line]


def warnings_of_four(said):
    """Those that are a fault with four machines: on the processors of this one they lose parts of
    long frames for want of turns, several times in a row now and then, and use shorter ones for a
    while."""
    return [line for line in warnings(said) if SIZES not in line]


def check(holds, what):
    if not holds:
        raise Failed(what)


def await_carrier(machines):
    for machine in machines.all:
        machine.await_carrier(0)


def settle(machines):
    """After a change that has some cards begin anew: for seconds, and not at once."""
    time.sleep(4)
    await_carrier(machines)


# What is switched, as `ethtool -K` calls it and as `-k` shows it.
OFFLOADS = {
    "rx": "rx-checksumming",
    "tx": "tx-checksumming",
    "sg": "scatter-gather",
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
}


def offloads(machine):
    """Which of them are on, of those that can be switched. The kernel's own, of sending and of
    receiving, are among them with every card."""
    shown = machine.run("ethtool -k c0")
    found = {}
    for name in OFFLOADS.values():
        line = re.search(rf"^{name}: (on|off)(.*)$", shown, re.MULTILINE)
        if line and "[fixed]" not in line[2]:
            found[name] = line[1] == "on"
    check(found.get("generic-segmentation-offload") is not None, shown)
    return found


def every_link(machines, model):
    """All links together and each alone, with what the card does by itself and without."""
    first = machines[0]
    for links in ["packet,udp,tso", *LINKS]:
        said = first.run(stress(2, f"WEFT_LINKS={links}"))
        said += first.run(native("bw --bytes 1M --ms 100", f"WEFT_LINKS={links}"))
        check(not warnings(said), f"{links}: {said}")
    said = first.run(native("bw --bytes 1M --ms 100", "WEFT_LOG=weft=info"))
    # QEMU plays the card's cutting of IPv6 segments wrong until version 8.1.
    if "the kernel does" in said:
        print(f"        {model}: cut by the kernel, for what the card cuts does not arrive")
    before = [offloads(machine) for machine in machines.all]
    for how, what in [("off", "without offloads"), ("on", "with offloads again")]:
        for machine, had in zip(machines.all, before):
            # One at a time, for a card may not have it.
            machine.run("; ".join(f"ethtool -K c0 {name} {how}" for name in OFFLOADS) + "; true")
            now = offloads(machine)
            switched = [name for name in had if had[name] and now.get(name) == (how == "on")]
            check(switched == [name for name in had if had[name]], f"{how}: {had}, now {now}")
        settle(machines)
        for links in ["packet,udp,tso", *LINKS]:
            said = first.run(stress(2, f"WEFT_LINKS={links}"))
            check(not warnings(said), f"{what}, {links}: {said}")


def another_mtu(machines, _):
    """Frames of 9000 bytes at one end only."""
    machines[0].run("ip link set c0 mtu 9000")
    settle(machines)
    said = machines[0].run(stress(2))
    said += machines[0].run(native("bw --bytes 1M --ms 100"))
    told = [line for line in warnings(said) if SIZES in line]
    check(len(told) <= 2 * 2, f"no more than one for each rank of a job: {told}")
    check(len(told) == len(warnings(said)), said)
    machines[0].run("ip link set c0 mtu 1500")
    settle(machines)


def mtu_under_a_job(machines, _):
    """One end's MTU is lowered while messages are on their way, and set as it was."""
    begin(machines[0], seconds=12)
    for mtu in [1300, 1500]:
        machines[1].run(f"ip link set c0 mtu {mtu}")
        time.sleep(3)
    said, status = machines[0].finish()
    check(status == 0, said)
    settle(machines)


def vlan(machines, _):
    """A VLAN on the cable is an interface like any other."""
    for machine in machines.all:
        machine.run(
            "ip link add link c0 name v7 type vlan id 7; ip link set v7 up;"
            f"ip address add 10.7.0.1{machine.number}/24 dev v7"
        )
    settle(machines)
    for links in ["packet,udp,tso", *LINKS]:
        said = machines[0].run(stress(2, f"WEFT_INTERFACES=v7 WEFT_LINKS={links}"))
        check(not warnings(said), f"{links}: {said}")
    # The VLAN and the card it is on, together: two interfaces of one cable, and of one ring of the
    # card's. What overflows that is lost, and said: rtl8139 has room for few frames.
    said = machines[0].run(stress(2, "WEFT_INTERFACES=v7,c0"))
    check(all(LOSS in line for line in warnings(said)), said)
    for machine in machines.all:
        machine.run("ip link del v7")


def pulled_cable(machines, _):
    """The only cable is out for a second and a half, under load."""
    begin(machines[0])
    machines[0].cable(0, up=False)
    time.sleep(1.5)
    machines[0].cable(0, up=True)
    said, status = machines[0].finish()
    check(status == 0, said)


def one_of_two(machines, _):
    """One of two cables is pulled, and then its card is taken out; the other goes on."""
    for harm in (lambda m: m.cable(0, up=False), lambda m: m.remove(0)):
        machines[1].cable(0, up=True)
        await_carrier(machines)
        begin(machines[0])
        harm(machines[1])
        said, status = machines[0].finish()
        check(status == 0, said)


def no_card_left(machines, _):
    """The only card is taken out: the job ends with an error, and does not hang."""
    begin(machines[0], "WEFT_PEER_LIMIT_S=3", seconds=60)
    machines[1].remove(0)
    said, status = machines[0].finish(60)
    check(status != 0, "the job has ended well, with no cable")
    check("m1" in said, f"it says who is lost: {said[-3000:]}")


def switch_of_four(machines, _):
    """A job of four machines at a switch that learns addresses."""
    said = machines[0].run(stress(4, seconds=3), 180)
    check(not warnings_of_four(said), said)


def interrupts(machines, model):
    """How long cards wait before they interrupt."""
    tune.interrupts(machines, model, mpi, stress)


def pauses(machines, _):
    """The switch holds back what is for one of the machines for 0.3 s, again and again."""
    begin(machines[0])
    for _ in range(6):
        machines.switches[-1].pause(1, 0.3)
        time.sleep(0.6)
    said, status = machines[0].finish()
    check(status == 0, said)
    check(not warnings(said), said)


def promiscuous(machines, _):
    """A hub in the place of the switch gives all frames to all, and all cards take them."""
    for machine in machines.all:
        machine.run("ip link set c0 promisc on")
    machines.switches[-1].learns = False
    said = machines[0].run(stress(4, seconds=3), 180)
    check(not warnings_of_four(said), said)
    machines.switches[-1].learns = True
    for machine in machines.all:
        machine.run("ip link set c0 promisc off")


def port_security(machines, _):
    """The switch drops frames whose source is not the first that it has seen at the port."""
    switch = machines.switches[-1]
    switch.secure()
    for links in LINKS:
        said = machines[0].run(stress(4, f"WEFT_LINKS={links}"), 180)
        check(not warnings(said), f"{links}: {said}")
    check(switch.refused == 0, f"{switch.refused} frames had another source address")


USUAL = ["e1000e", "virtio-net-pci", "vmxnet3"]
# What is done with the same machines, one after another: how many there are, cards of each, whether
# at a switch, and the steps, each with the models that it is for.
COURSES = [
    (2, 1, False, [
        (every_link, MODELS),
        (another_mtu, USUAL),
        (mtu_under_a_job, USUAL),
        (vlan, MODELS),
        (interrupts, ["e1000e", "virtio-net-pci"]),
        (pulled_cable, MODELS),
        (no_card_left, ["e1000e", "virtio-net-pci"]),
    ]),
    (2, 2, False, [(one_of_two, USUAL)]),
    (4, 1, True, [
        (switch_of_four, USUAL),
        (pauses, ["e1000e"]),
        (promiscuous, ["e1000e"]),
        (port_security, USUAL),
    ]),
]  # fmt: skip


class Course:
    """Machines that several steps use; after one that has failed, others."""

    def __init__(self, *what):
        self.what = what
        self.machines = None

    def take(self, step, model):
        """Whether the step went well, which is said."""
        name, begun = f"{step.__name__} {model}", time.monotonic()
        try:
            if self.machines is None:
                self.machines = Machines(*self.what)
                took = time.monotonic() - begun
                print(f"        {took:.0f} s  {len(self.machines.all)} machines", flush=True)
                begun = time.monotonic()
            step(self.machines, model)
        except Failed as why:
            print(f"FAILED  {time.monotonic() - begun:.0f} s  {name}: {why}", flush=True)
            self.end()
            return False
        print(f"good    {time.monotonic() - begun:.0f} s  {name}", flush=True)
        return True

    def end(self):
        if self.machines is not None:
            self.machines.end()
        self.machines = None


def tests(image, directory, words):
    begun, good, failed = time.monotonic(), 0, []
    for count, cards, switched, steps in COURSES:
        for model in MODELS:
            course = Course(image, directory, count, [model] * cards, switched)
            for step, models in steps:
                name = f"{step.__name__} {model}"
                wanted = not words or any(word in name for word in words)
                if model in models and wanted:
                    well = course.take(step, model)
                    good += well
                    failed += [] if well else [name]
            course.end()
    print(f"{good} good, {len(failed)} failed, {time.monotonic() - begun:.0f} s")
    return not failed and good > 0


def figures(image, directory):
    """Medians of three rounds, each way in turn on the same machines: 8 bytes there and back, us;
    windows of 1 MiB, MB/s."""
    ways = {"tcp": ("", "--transport own"), "all": ("", "")}
    ways |= {link: (f"WEFT_LINKS={link}", "") for link in LINKS}
    print(f"{'card':15} {'way':8} {'8 B us':>8} {'/ tcp':>6} {'1 MiB MB/s':>11} {'/ tcp':>6}")
    for model in MODELS:
        with Machines(image, directory, 2, [model]) as machines:
            taken = {way: ([], []) for way in ways}
            for _ in range(3):
                for way, (variables, options) in ways.items():
                    job = mpi(2, "patterns x 300 lat 8 bw 1048576", variables, options)
                    lines = machines[0].run(job).splitlines()
                    for line in (json.loads(line) for line in lines if line.startswith("{")):
                        if line["bench"] == "lat":
                            taken[way][0].append(line["rtt_us"]["p50"])
                        else:
                            taken[way][1].append(line["bandwidth_mb_s"])
        middle = {way: tuple(map(statistics.median, both)) for way, both in taken.items()}
        for way, (lat, bw) in middle.items():
            ratios = lat / middle["tcp"][0], bw / middle["tcp"][1]
            figures = f"{lat:8.0f} {ratios[0]:6.2f} {bw:11.1f} {ratios[1]:6.2f}"
            print(f"{model:15} {way:8} {figures}", flush=True)
    return True


def tune_figures(image, directory):
    with Machines(image, directory, 2, ["e1000e"]) as machines:
        return tune.figures(machines, mpi)


def main():
    words = sys.argv[1:]
    asked = [word for word in words if word.startswith("--")]
    words = [word for word in words if word not in asked]
    if not words or not set(asked) <= {"--figures", "--tune"}:
        sys.exit(__doc__)
    image = os.path.abspath(words[0])
    with tempfile.TemporaryDirectory(prefix="weft-nic-") as directory:
        if "--figures" in asked:
            well = figures(image, directory)
        elif "--tune" in asked:
            well = tune_figures(image, directory)
        else:
            well = tests(image, directory, words[1:])
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
