"""What ends a wait, and what outlives it: dead peers, signals, threads, forks. Two ranks, one role
at a time: weft run -n 2 --keep-going -- python ends.py ROLE

Each rank that is to live prints `rank N ended well`."""

import os
import signal
import sys
import threading
import time

import weft
from check import raises

#: Far longer than anything here takes.
LIMIT_S = 120


def killed(ep):
    """Rank 1 is killed: whatever rank 0 waits for ends in an error that names it."""
    dead = weft.PeerDead
    plan, stages, _ = line(ep)
    end = ep.join(1 - ep.rank, 1, 100)
    if ep.rank == 1:
        with ep.region(1 << 20) as region:
            ep.send(0, 1, region.handle.to_bytes())
            ep.recv(0, 2, bytearray(1))
            os.kill(os.getpid(), signal.SIGKILL)
    handle = bytearray(weft.HANDLE_LEN)
    ep.recv(1, 1, handle)
    there = weft.RegionHandle.from_bytes(handle)
    region, group = ep.region(64), weft.Group(ep)
    plan.start(stages[0])
    into = bytearray(1 << 20)
    waiting = [ep.irecv(1, 3, into), ep.irecv(weft.ANY, weft.ANY, bytearray(9))]
    ep.isend(1, 4, bytes(1 << 22))
    ep.send(1, 2, b"!")
    assert raises(dead, "is gone", ep.recv, 1, 5, into, timeout_s=LIMIT_S).peer == 1
    for request in waiting:
        raises(dead, "rank 1", request.wait, timeout_s=LIMIT_S)
    raises(dead, "rank 1", ep.wait_all, waiting)
    raises(dead, "rank 1", ep.probe, 1, 5, timeout_s=LIMIT_S)
    raises(dead, "rank 1", ep.send, 1, 5, bytes(1 << 22))
    raises(dead, "rank 1", ep.put, there, 0, into)
    raises(dead, "rank 1", ep.get, there, 0, into)
    raises(dead, "rank 1", ep.fetch_add, there, 0, 1)
    raises(dead, "rank 1", ep.allreduce, weft.AtomicOp.Sum, into)
    raises(dead, "rank 1", ep.barrier)
    raises(dead, "rank 1", group.barrier)
    raises(dead, "rank 1", group.broadcast, 1, into)
    raises(dead, "rank 1", group.deliver)
    raises(dead, "rank 1", region.wait_notice)
    raises(dead, "rank 1", end.wait_flag)
    raises(dead, "rank 1", ep.join, 1, 2, 100)
    raises(dead, "rank 1", plan.wait, stages[0], timeout_s=LIMIT_S)
    raises(dead, "rank 1", plan.start, stages[1])
    raises(ConnectionError, "is gone", ep.recv, 1, 5, into)


def line(ep):
    """A plan of a row of ranks, built, with two stages, and its arrays."""
    plan = weft.Plan(ep, (ep.size,), (True,))
    arrays = [plan.array((1000,)), plan.lay(memoryview(bytearray(8 * 1002)).cast("d"))]
    stages = [plan.stage([array]) for array in arrays]
    plan.build()
    return plan, stages, arrays


def closed(ep):
    """Rank 1 ends in good order."""
    if ep.rank == 1:
        ep.send(0, 1, b"bye")
        return
    raises(weft.PeerClosed, "in good order", ep.recv, 1, 2, bytearray(1))
    assert ep.recv(1, 1, bytearray(3)).len == 3


def left_open(ep):
    """Rank 1 closes nothing: the interpreter's end does, plans under way included."""
    global KEPT
    KEPT = line(ep), ep.join(1 - ep.rank, 1, 100)
    plan, stages, _ = KEPT[0]
    if ep.rank == 1:
        for stage in stages:
            plan.start(stage)
    closed(ep)


def left_by_an_error(ep):
    """Nor when it ends with an exception; what it had started is taken back."""
    if ep.rank == 1:
        ep.irecv(0, 77, bytearray(100))
        sys.excepthook = lambda *_: print("rank 1 ended well", flush=True)
        raise RuntimeError("as meant")
    closed_or_dead = (weft.PeerClosed, weft.PeerDead)
    raises(closed_or_dead, "rank 1", ep.recv, 1, 2, bytearray(1))


def interrupted(ep):
    """Ctrl-C ends every wait, and what was waited for leaves no trace."""
    plan, stages, arrays = line(ep)
    end = ep.join(1 - ep.rank, 1, 100)
    if ep.rank == 1:
        cells = memoryview(arrays[0])
        cells[1] = cells[1000] = 7.0
        ep.recv(0, 1, bytearray(1))
        plan.exchange(stages[0])
        return
    plan.start(stages[0])
    region, group = ep.region(64), weft.Group(ep, [0, 1])
    into, long = bytearray(1 << 22), bytes(1 << 22)
    request = ep.irecv(1, 9, into)
    waits = [
        lambda: ep.recv(1, 9, bytearray(1)),
        lambda: ep.recv(1, 9, bytearray(1), timeout_s=LIMIT_S),
        lambda: request.wait(),
        lambda: ep.wait_all([request]),
        lambda: ep.probe(1, 9),
        lambda: ep.send(1, 8, long),
        lambda: region.wait_notice(),
        lambda: end.wait_flag(),
        lambda: ep.join(1, 2, 100),
        lambda: group.deliver(),
        lambda: group.barrier(),
        lambda: group.wait(),
        lambda: group.broadcast(1, bytearray(100)),
        lambda: ep.allreduce(weft.AtomicOp.Sum, bytearray(100)),
        lambda: ep.barrier(),
        lambda: plan.wait(stages[0]),
        lambda: plan.wait(stages[0], timeout_s=LIMIT_S),
    ]
    for number, wait in enumerate(waits):
        calls = interrupt_soon()
        try:
            wait()
        except KeyboardInterrupt:
            calls.join()
            continue
        raise AssertionError(f"wait {number} was not interrupted")
    assert request.cancel()
    into.append(1)
    ep.send(1, 1, b"!")
    # The exchange has gone on.
    plan.wait(stages[0])
    cells = memoryview(arrays[0])
    assert cells[0] == cells[1001] == 7.0


def build_interrupted(ep):
    """Ctrl-C ends the wait for others to build a plan; the endpoint closes nevertheless."""
    plan = weft.Plan(ep, (ep.size,))
    plan.stage([plan.array((10,))])
    if ep.rank == 1:
        gone = (weft.PeerClosed, weft.PeerDead)
        raises(gone, "rank 0", ep.recv, 0, 1, bytearray(1))
        return
    calls = interrupt_soon()
    try:
        plan.build()
    except KeyboardInterrupt:
        calls.join()
    else:
        raise AssertionError("nobody has interrupted it")
    raises(weft.BadArgument, "being built", plan.build)
    plan.close()


def interrupt_soon():
    """Sends this process SIGINT from a thread, which runs although the main thread waits."""

    def run():
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def threads(ep):
    """Two threads use one endpoint; others run while one waits."""
    other, rounds = 1 - ep.rank, 300
    failed = []

    def talk(tag):
        try:
            for n in range(rounds):
                size = 1 << (n % 18)
                request = ep.isend(other, tag, bytes([n % 256]) * size)
                into = bytearray(size)
                assert ep.recv(other, tag, into).len == size
                assert into == bytes([n % 256]) * size
                request.wait()
        except BaseException as error:
            failed.append(error)
            raise

    talkers = [threading.Thread(target=talk, args=(tag,)) for tag in (1, 2, 3)]
    for talker in talkers:
        talker.start()
    for talker in talkers:
        talker.join()
    assert not failed, failed
    one_request(ep, other)
    two_stages(ep)


def two_stages(ep):
    """One thread waits for a stage, another one uses the plan meanwhile."""
    plan, (first, second), _ = line(ep)
    plan.start(first)
    if ep.rank == 0:
        ended = []
        waiter = threading.Thread(target=lambda: ended.append(plan.wait(first)))
        waiter.start()
        for _ in range(5):
            plan.exchange(second)
        ep.barrier()
        plan.start(second)
        plan.wait(second)
        waiter.join()
        assert ended == [None]
    else:
        for _ in range(5):
            plan.exchange(second)
        ep.barrier()
        plan.exchange(second)
        plan.wait(first)


def stopped_owner(ep):
    """Within a node Weft's memory is reached while its owner is stopped: no thread of it runs."""
    size = 1 << 20
    with ep.region(size) as region, ep.join(1 - ep.rank, 3, size) as end:
        ep.send(1 - ep.rank, 1, region.handle.to_bytes())
        handle = bytearray(weft.HANDLE_LEN)
        ep.recv(1 - ep.rank, 1, handle)
        if ep.rank == 1:
            ep.send(0, 2, os.getpid().to_bytes(4, "little"))
            assert end.wait_flag(timeout_s=LIMIT_S) == 9
            assert bytes(memoryview(region)[:size]) == bytes([5]) * size
            assert bytes(memoryview(end)[: size // 2]) == bytes([6]) * (size // 2)
            return
        there, pid = weft.RegionHandle.from_bytes(handle), bytearray(4)
        ep.recv(1, 2, pid)
        pid = int.from_bytes(pid, "little")
        # The first ones are answered by their owner, who shows the memory.
        for _ in range(2):
            ep.put(there, 0, b"1")
            end.write(0, 0, 1)
            end.flush()
        stop(pid)
        try:
            for _ in range(3):
                ep.put(there, 0, bytes([5]) * size)
                ep.get(there, 0, into := bytearray(size))
                assert into == bytes([5]) * size
                ep.iput(there, 0, into).wait()
                ep.iget(there, 0, into).wait()
            end.fill(0, bytes([6]) * size)
            end.write(0, 0, size // 2)
            end.flush()
        finally:
            os.kill(pid, signal.SIGCONT)
        end.flag(9)


def stop(pid):
    """Stops a process, and waits until all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    folder = f"/proc/{pid}/task"
    while True:
        states = []
        for task in os.listdir(folder):
            with open(f"{folder}/{task}/stat") as stat:
                states.append(stat.read().rsplit(")", 1)[1].split()[0])
        if all(state == "T" for state in states):
            return
        time.sleep(0.01)


def long_copies(ep):
    """Other threads run while a long put or get is done, also one that is a copy of this thread's
    own: they find the bytes half old and half new."""
    size = 1 << 26
    with ep.region(size) as region:
        ep.send(1 - ep.rank, 1, region.handle.to_bytes())
        handle = bytearray(weft.HANDLE_LEN)
        ep.recv(1 - ep.rank, 1, handle)
        there = weft.RegionHandle.from_bytes(handle)
        if ep.rank == 0:
            into, seen, over = bytearray(size), [], []

            def look():
                while not over:
                    if into[0] != into[-1]:
                        seen.append(True)
                        return

            ep.put(there, 0, b"1")
            looker = threading.Thread(target=look)
            looker.start()
            for n in range(200):
                region.write(0, bytes([n]))
                ep.put(there, 0, bytes([n]) * size)
                ep.get(there, 0, into)
                if seen:
                    break
            over.append(True)
            looker.join()
            assert seen, "no other thread has run in the middle of a get"
        ep.barrier()


def one_request(ep, other):
    request = ep.irecv(other, 9, bytearray(1))
    ends = []

    def wait():
        try:
            ends.append(request.wait())
        except weft.Error as error:
            ends.append(error)

    waiters = [threading.Thread(target=wait) for _ in range(2)]
    for waiter in waiters:
        waiter.start()
    # One is told at once that the other waits.
    while not ends:
        time.sleep(0.01)
    assert "another thread waits" in str(ends[0]), ends
    ep.barrier()
    ep.send(other, 9, b"!")
    for waiter in waiters:
        waiter.join()
    assert ends[1].len == 1, ends


def wait_for_plan(plan, stage, told):
    try:
        plan.wait(stage)
    except weft.Error as error:
        told.append(error)


def closed_plan(ep):
    """A plan's closing ends them as well."""
    plan, (first, _), _ = line(ep)
    if ep.rank == 0:
        plan.start(first)
        planner = threading.Thread(target=wait_for_plan, args=(plan, first, told := []))
        planner.start()
        time.sleep(0.05)
        plan.close()
        planner.join()
        assert isinstance(told[0], weft.Closed) and "the plan is closed" in str(told[0]), told


def closed_by_another_thread(ep):
    """Closing ends the waits of other threads."""
    ends = []
    plan, (first, second), _ = line(ep)
    plan.exchange(second)
    closed_plan(ep)
    planner = threading.Thread(target=wait_for_plan, args=(plan, first, told := []))
    if ep.rank == 0:
        # Its neighbour has not.
        plan.start(first)
        planner.start()

    def wait(call, *args):
        try:
            call(*args)
        except weft.Error as error:
            ends.append(error)

    end = ep.join(1 - ep.rank, 1, 100)
    waits = [
        (ep.recv, 1 - ep.rank, 9, bytearray(1)),
        (end.wait_flag,),
        # The other one says another number.
        (ep.join, 1 - ep.rank, 2 + ep.rank, 100),
    ]
    waiters = [threading.Thread(target=wait, args=args) for args in waits]
    for waiter in waiters:
        waiter.start()
    request = ep.irecv(1 - ep.rank, 10, into := bytearray(1))
    ep.barrier()
    time.sleep(0.05)
    ep.close()
    for waiter in waiters:
        waiter.join()
    ended = (weft.Closed, weft.Cancelled, weft.PeerClosed)
    assert len(ends) == 3 and all(isinstance(error, ended) for error in ends), ends
    if ep.rank == 0:
        planner.join()
        assert isinstance(told[0], (weft.Closed, weft.PeerClosed, weft.PeerDead)), told
    raises(weft.Error, "", request.wait)
    into.append(1)
    raises(weft.Closed, "closed", ep.send, 0, 1, b"1")
    raises(weft.Closed, "endpoint is closed", plan.wait, first)
    plan.close()


def forked(ep):
    """A child that is forked off is told, does no harm, and ends."""
    other = 1 - ep.rank
    region, group = ep.region(64), weft.Group(ep)
    plan, stages, _ = line(ep)
    plan.start(stages[0])
    plan.start(stages[1])
    request = ep.irecv(other, 1, bytearray(1))
    # A thread waits meanwhile, and is not there in the child.
    waiter = threading.Thread(target=ep.recv, args=(other, 2, bytearray(1)))
    waiter.start()
    child = os.fork()
    if child == 0:
        for call in (
            lambda: ep.send(other, 1, b"1"),
            lambda: ep.recv(other, 1, bytearray(1)),
            lambda: ep.barrier(),
            lambda: request.wait(),
            lambda: request.cancel(),
            lambda: group.barrier(),
            lambda: region.wait_notice(),
            lambda: region.close(),
            lambda: plan.wait(stages[0]),
            lambda: plan.close(),
            lambda: weft.Plan(ep, (ep.size,)),
            lambda: ep.close(),
            lambda: weft.Endpoint(JOB),
            lambda: JOB.close(),
        ):
            raises(weft.Forked, "forked child", call)
        # As any child may end: with all that an interpreter's end does.
        sys.exit(3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 3, status
    ep.barrier()
    ep.send(other, 1, b"!")
    assert request.wait().len == 1
    ep.send(other, 2, b"!")
    waiter.join()
    for stage in stages:
        plan.wait(stage)
    ep.barrier()


ROLES = {
    role.__name__: role
    for role in (
        killed,
        closed,
        left_open,
        left_by_an_error,
        interrupted,
        build_interrupted,
        threads,
        stopped_owner,
        long_copies,
        closed_by_another_thread,
        forked,
    )
}
JOB = None
KEPT = None


def main():
    global JOB
    role = ROLES[sys.argv[1]]
    JOB = weft.Job.from_env()
    endpoint = weft.Endpoint(JOB)
    role(endpoint)
    if role not in (left_open, left_by_an_error):
        endpoint.close()
        JOB.close()
    print(f"rank {JOB.rank} ended well", flush=True)


if __name__ == "__main__":
    main()
