"""Every wait gives the GIL away: weft run -n 2 -- python waits.py [lab]

Rank 0 waits in its main thread for what another thread of it brings about. That runs only while the
main thread has given the GIL away, for Python is told to take it from nobody; and it has several
turns, over a time in which a wait looks for signals more than once, so that it is not enough to
give the GIL away at the beginning. A wait that keeps the GIL ends in an error of rank 1, which has
waited for its word."""

import os
import signal
import sys
import threading
import time

import weft
from ends import line, stop

#: Far longer than anything here takes.
LIMIT_S = 60
TURNS, TURN_S = 4, 0.05
GO, WORD, LONG = 1, 2, 1 << 22


class Waits:
    """What rank 0 waits for, and what rank 1 does for that, when it is told to."""

    def __init__(self, job, ep):
        self.job, self.ep = job, ep
        self.plan, self.stages, _ = line(ep)
        self.group, self.region = weft.Group(ep), ep.region(LONG)
        self.end = ep.join(1 - ep.rank, 1, 100)
        self.here = ep.rank == 0
        self.done, self.told_it = [], False

    def run(self):
        self.waits()
        if self.here:
            self.ep.send(1, GO, (0).to_bytes(4, "little"))
        else:
            assert self.told() == 0
        return self.done

    def told(self):
        number = bytearray(4)
        self.ep.recv(0, GO, number, timeout_s=LIMIT_S)
        return int.from_bytes(number, "little")

    def of(self, name, wait, answer=None):
        """`wait` at rank 0 ends when rank 1 does `answer`, or the same thing."""
        self.done.append(name)
        number = len(self.done)
        if not self.here:
            assert self.told() == number, name
            (answer or wait)()
            return
        self.told_it = False

        def tell():
            self.told_it = True
            self.ep.send(1, GO, number.to_bytes(4, "little"))

        while_it_waits(name, wait, tell)

    def waits(self):
        self.of_messages()
        self.of_all()
        self.of_some()
        self.of_plans()
        self.of_joins()

    def of_messages(self):
        ep = self.ep
        into, long, word = bytearray(LONG), bytes(LONG), b"!"

        def send(count=1, tag=WORD):
            for _ in range(count):
                ep.send(0, tag, word)

        self.of("recv", lambda: ep.recv(1, WORD, into), send)
        self.of("recv, timeout", lambda: ep.recv(1, WORD, into, timeout_s=LIMIT_S), send)
        self.of("send", lambda: ep.send(1, WORD, long), lambda: ep.recv(0, WORD, into))
        self.of(
            "send, timeout",
            lambda: ep.send(1, WORD, long, timeout_s=LIMIT_S),
            lambda: ep.recv(0, WORD, into),
        )
        self.of("request.wait", lambda: ep.irecv(1, WORD, into).wait(), send)
        self.of(
            "request.wait, timeout",
            lambda: ep.irecv(1, WORD, into).wait(timeout_s=LIMIT_S),
            send,
        )
        self.of("isend", lambda: ep.isend(1, WORD, long).wait(), lambda: ep.recv(0, WORD, into))
        self.of(
            "wait_all",
            lambda: ep.wait_all([ep.irecv(1, WORD, bytearray(1)) for _ in range(2)]),
            lambda: send(2),
        )
        # Both messages stay where they are.
        self.of("probe", lambda: ep.probe(1, 3), lambda: send(tag=3))
        self.of(
            "probe, timeout", lambda: ep.probe(1, 4, timeout_s=LIMIT_S), lambda: send(tag=4)
        )
        handle = bytearray(self.region.handle.to_bytes())
        ep.broadcast(0, handle)
        there = weft.RegionHandle.from_bytes(handle)
        self.of("wait_notice", self.region.wait_notice, lambda: ep.put_with(there, 0, word, 5))
        self.of(
            "wait_notice, timeout",
            lambda: self.region.wait_notice(timeout_s=LIMIT_S),
            lambda: ep.put_with(there, 0, word, 5),
        )
        self.of("exchange of a job", lambda: self.job.exchange(b"here"))

    def of_all(self):
        ep, total = self.ep, weft.AtomicOp.Sum
        one, two, also = (memoryview(bytearray(8 * count)).cast("d") for count in (1, 2, 2))
        self.of("barrier", ep.barrier)
        for of, name in ((ep, ""), (self.group, " of a group")):
            self.of("broadcast" + name, lambda of=of: of.broadcast(1, one))
            self.of("reduce" + name, lambda of=of: of.reduce(0, total, one))
            self.of("allreduce" + name, lambda of=of: of.allreduce(total, one))
            self.of("reduce_scatter" + name, lambda of=of: of.reduce_scatter(total, two, one))
            self.of("gather" + name, lambda of=of: of.gather(0, one, two if self.here else None))
            self.of("scatter" + name, lambda of=of: of.scatter(1, None if self.here else two, one))
            self.of("allgather" + name, lambda of=of: of.allgather(one, two))
            self.of("alltoall" + name, lambda of=of: of.alltoall(two, also))

    def of_some(self):
        group, many = self.group, bytes(1 << 20)
        self.of("barrier of a group", group.barrier)

        def arrived(**limit):
            group.arrive()
            group.wait(**limit)

        self.of("wait of a group", arrived)
        self.of("wait of a group, timeout", lambda: arrived(timeout_s=LIMIT_S))
        take = group.deliver

        def cast():
            group.cast(b"!")
            group.deliver()

        self.of("deliver", take, cast)
        self.of("deliver, timeout", lambda: take(timeout_s=LIMIT_S), cast)

        def cast_many():
            # While a member takes none only so many may be under way.
            while not self.told_it:
                group.cast(many)
            group.cast(b"last")

        def take_all():
            while take()[1] != b"last":
                pass

        self.of("cast", cast_many, take_all)
        if self.here:
            take_all()

    def of_plans(self):
        ep, plan, (first, second) = self.ep, self.plan, self.stages

        def exchanged(stage):
            plan.start(stage)
            plan.wait(stage)

        self.of("plan.wait", lambda: exchanged(first))
        self.of("plan.exchange", lambda: plan.exchange(second))
        if self.here:
            plan.start(first)
        self.of("plan.wait, timeout", lambda: plan.wait(first, LIMIT_S), lambda: exchanged(first))
        self.of("plan.build", lambda: line(ep))

    def of_joins(self):
        ep, end, other = self.ep, self.end, 1 - self.ep.rank
        self.of("wait_flag", end.wait_flag, lambda: end.flag(1))
        self.of("wait_flag, timeout", lambda: end.wait_flag(timeout_s=LIMIT_S), lambda: end.flag(1))
        self.of("join", lambda: ep.join(other, 2, 100))
        self.of("an endpoint's opening", lambda: weft.Endpoint(self.job, 1).close())


def while_it_waits(name, wait, bring_about):
    """Has `wait` end by what another thread does, which has its turn in the wait only."""
    told, done, failed = threading.Event(), [], []

    def run():
        told.wait()
        try:
            for _ in range(TURNS):
                time.sleep(TURN_S)
            done.append(name)
            bring_about()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    told.set()
    wait()
    by_it = bool(done)
    sys.setswitchinterval(usual)
    thread.join()
    assert by_it, f"{name} has waited for nothing"
    assert not failed, (name, failed)


def of_a_stopped_owner(job, ep):
    """What peers do to memory over the network waits for its owner's answer, and an endpoint's end
    for what it has sent to be there; a stopped one answers nothing."""
    last = weft.Endpoint(job, 2)
    region, end = ep.region(1 << 20), ep.join(1 - ep.rank, 1, 100)
    handle = bytearray(region.handle.to_bytes())
    ep.broadcast(1, handle)
    pid = bytearray(os.getpid().to_bytes(4, "little"))
    ep.broadcast(1, pid)
    pid, there = int.from_bytes(pid, "little"), weft.RegionHandle.from_bytes(handle)
    into, number = bytearray(8), memoryview(bytearray(8)).cast("Q")
    total, swap = weft.AtomicOp.Sum, weft.AtomicOp.SwapIfEqual
    waits = {
        "put": lambda: ep.put(there, 0, into),
        "put_with": lambda: ep.put_with(there, 0, into, 1),
        "get": lambda: ep.get(there, 0, into),
        "iput": lambda: ep.iput(there, 0, bytes(into)).wait(),
        "iget": lambda: ep.iget(there, 0, bytearray(8)).wait(timeout_s=LIMIT_S),
        "flush": lambda: ep.iput(there, 0, bytes(into)) and ep.flush(),
        "flush of a peer": lambda: ep.iput(there, 0, bytes(into)) and ep.flush(1),
        "fence": lambda: ep.iget(there, 0, bytearray(8)) and ep.fence(1),
        "fetch_add": lambda: ep.fetch_add(there, 0, 1),
        "compare_swap": lambda: ep.compare_swap(there, 0, 1, 2),
        "accumulate": lambda: ep.accumulate(there, 0, total, number),
        "fetch_and_op": lambda: ep.fetch_and_op(there, 0, total, number, number),
        "compare_and_op": lambda: ep.compare_and_op(there, 0, swap, number, number, number),
        "flush of an end": lambda: (end.write(0, 0, 8), end.flush()),
    }
    last.barrier()
    if ep.rank == 0:
        for name, wait in waits.items():
            stop(pid)
            while_it_waits(name, wait, lambda: os.kill(pid, signal.SIGCONT))
        stop(pid)
        last.send(1, WORD, into)
        while_it_waits("close", last.close, lambda: os.kill(pid, signal.SIGCONT))
    else:
        last.recv(0, WORD, into)
        last.close()
    ep.barrier()
    return [*waits, "close"]


def of_a_stopped_launcher(name, wait):
    """What asks the launcher waits for its answer."""
    launcher = os.getppid()
    with open(f"/proc/{launcher}/comm") as comm:
        assert comm.read().startswith("weft"), "it was not started by `weft run`"
    stop(launcher)
    while_it_waits(name, wait, lambda: os.kill(launcher, signal.SIGCONT))


def main():
    first, jobs = os.environ["PMI_RANK"] == "0", []

    def of_launcher(name, wait):
        if first:
            of_a_stopped_launcher(name, wait)
        else:
            wait()

    of_launcher("from_env", lambda: jobs.append(weft.Job.from_env()))
    with weft.Endpoint(jobs[0]) as ep:
        done = Waits(jobs[0], ep).run()
        if sys.argv[1:] == ["lab"]:
            done += of_a_stopped_owner(jobs[0], ep)
    of_launcher("close of a job", jobs[0].close)
    print(f"rank {jobs[0].rank} has waited {len(done) + 2} times", flush=True)


if __name__ == "__main__":
    main()
