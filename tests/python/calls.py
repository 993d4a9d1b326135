"""Every call of the Python face, each with all ranks: weft run -n N -- python calls.py

Two to four ranks, within a node and between nodes. Each function is one test; all ranks do the same
ones in the same order."""

import array
import gc
import sys
import time

import numpy as np
import weft
from check import neighbours, raises
from regions import a_region_closed_during_puts, joined_buffers, regions

SEED = 7


def messages_of_all_sizes(ep):
    following, before = neighbours(ep)
    rng = np.random.default_rng(SEED)
    for size in (0, 1, 8, 33, 1000, 4096, 16384, 65536, 70000, 1 << 20, (1 << 22) + 3):
        data = rng.integers(0, 256, size, dtype=np.uint8)
        into = np.full(size + 5, 9, dtype=np.uint8)
        request = ep.isend(following, size, data)
        status = ep.recv(before, size, into)
        sent = request.wait()
        assert (status.source, status.tag, status.len) == (before, size, size), status
        assert sent.len == size
        assert (into[:size] == data).all() and (into[size:] == 9).all(), size


def zeros(size):
    return np.zeros(size, dtype=np.uint8)


def kinds_of_memory(ep):
    following, before = neighbours(ep)
    words = b"some words"
    senders = [
        words,
        bytearray(words),
        memoryview(b"xx" + words)[2:],
        array.array("B", words),
        np.frombuffer(words, dtype=np.uint8),
        OnlyDlpack(np.frombuffer(bytearray(words), dtype=np.uint8)),
    ]
    for tag, sender in enumerate(senders):
        for make in (bytearray, zeros, lambda n: array.array("B", bytes(n))):
            request = ep.isend(following, tag, sender)
            into = make(len(words))
            ep.recv(before, tag, into)
            request.wait()
            assert bytes(into) == words, into
    # Numbers of all types, NaN among them, bit for bit.
    for dtype in ("int8", "uint16", "int32", "uint64", "float32", "float64", "complex128", "bool"):
        data = np.arange(60).reshape(3, 4, 5).astype(dtype)
        if data.dtype.kind in "fc":
            data[:] = np.nan
        into = np.zeros_like(data)
        request = ep.isend(following, 99, data)
        ep.recv(before, 99, into)
        request.wait()
        assert into.tobytes() == data.tobytes()
    into = np.zeros(4, dtype="float64")
    tensor = OnlyDlpack(into)
    request = ep.isend(following, 1, np.arange(4.0))
    ep.recv(before, 1, tensor)
    request.wait()
    assert (into == np.arange(4.0)).all()


class OnlyDlpack:
    """A tensor that has no buffer protocol."""

    def __init__(self, of, device=(1, 0), versions=True):
        self.of, self.device, self.versions = of, device, versions

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **kw):
        if not self.versions and kw:
            raise TypeError("no such argument")
        return self.of.__dlpack__(**kw)


def bad_memory(ep):
    full = np.arange(100.0).reshape(10, 10)
    locked = full.copy()
    locked.flags.writeable = False
    bad = weft.BadArgument
    raises(bad, "read-only", ep.recv, 0, 1, b"bytes")
    raises(bad, "read-only", ep.irecv, 0, 1, locked)
    raises(bad, "read-only", ep.allreduce, weft.AtomicOp.Sum, locked)
    for strange in (full[:, :5], full.T, full[::2], full[::-1]):
        raises(bad, "ascontiguousarray", ep.send, 0, 1, strange)
        raises(bad, "in C order", ep.recv, 0, 1, strange)
    raises(bad, "no memory that can be sent", ep.send, 0, 1, 17)
    raises(bad, "no memory that can be filled", ep.recv, 0, 1, [1, 2])
    raises(bad, "no memory that can be sent", ep.send, 0, 1, "text")
    raises(bad, "Python objects", ep.send, 0, 1, np.array([None, 1], dtype=object))
    raises(bad, "view('int64')", ep.send, 0, 1, np.zeros(3, dtype="datetime64[s]"))
    raises(bad, "on a device", ep.send, 0, 1, OnlyDlpack(full, device=(2, 0)))
    raises(bad, "ascontiguousarray", ep.send, 0, 1, OnlyDlpack(full.T))
    raises(bad, "read-only", ep.recv, 0, 1, OnlyDlpack(locked))
    ops = weft.AtomicOp
    for dtype in ("?", ">f8", "f2", "S4"):
        raises(bad, "that can be combined", ep.allreduce, ops.Sum, np.zeros(3, dtype))
    raises(bad, "BitOr", ep.allreduce, ops.BitOr, np.zeros(3))
    raises(bad, "overlap", ep.alltoall, full, full)
    raises(bad, "of one type", ep.allgather, np.zeros(3), np.zeros(3, "i4"))
    # An array that was lent cannot be made longer or shorter meanwhile.
    lent = bytearray(4)
    request = ep.irecv(0, 123456, lent)
    raises(BufferError, "export", lent.append, 1)
    assert request.cancel()
    raises(weft.Cancelled, "cancelled", request.wait)
    lent.append(1)


def bad_numbers(ep):
    bad, data = weft.BadArgument, bytearray(8)
    raises(bad, "no rank", ep.send, ep.size, 0, data)
    raises(bad, "no rank", ep.recv, ep.size, 0, data)
    raises(bad, "no rank", ep.recv, -1, 0, data)
    raises(bad, "no rank", ep.recv, "0", 0, data)
    raises(bad, "no tag", ep.recv, 0, -1, data)
    raises(bad, "no tag", ep.recv, 0, 1 << 64, data)
    raises(OverflowError, "", ep.send, -1, 0, data)
    raises(OverflowError, "", ep.send, 0, 1 << 64, data)
    raises(bad, "timeout_s", ep.recv, 0, 0, data, timeout_s=-1)
    raises(bad, "timeout_s", ep.recv, 0, 0, data, timeout_s=float("nan"))
    raises(bad, "root", ep.broadcast, ep.size, data)
    raises(bad, "no rank", ep.flush, ep.size)
    raises(TypeError, "", weft.Endpoint, None)
    # All ranks call it, or none: it does not even begin.
    raises(bad, "elements where", ep.allgather, np.zeros(3), np.zeros(3 * ep.size + 1))


def wildcards(ep):
    following, before = neighbours(ep)
    mark = ep.rank.to_bytes(4, "little")
    into = bytearray(4)
    ep.isend(following, 0xF0, mark)
    assert ep.probe(weft.ANY, 0xF0).len == 4
    status = ep.recv(weft.ANY, weft.ANY, into)
    assert (status.source, status.tag) == (before, 0xF0)
    assert int.from_bytes(into, "little") == before
    ep.barrier()
    ep.isend(following, 0x1234, mark)
    assert ep.probe(before, weft.ANY, timeout_s=60).tag == 0x1234
    assert ep.iprobe(before, 0x1235) is None
    assert ep.iprobe(before, weft.Tag(0x1200, 0xFF)).source == before
    assert ep.recv(before, weft.Tag(0x1200, ignore=0xFF), into).tag == 0x1234
    assert weft.Tag(1, 2) == weft.Tag(1, 2) and weft.Tag(1) != weft.Tag(2)
    ep.barrier()


def timeouts(ep):
    following, before = neighbours(ep)
    into = bytearray(8)
    raises(TimeoutError, "nothing arrived", ep.recv, before, 4, into, timeout_s=0)
    raises(weft.TimedOut, "nothing arrived", ep.recv, before, 4, into, timeout_s=0.15)
    raises(weft.TimedOut, "", ep.probe, before, 4, timeout_s=0.01)
    request = ep.irecv(before, 4, into)
    assert request.test() is None
    raises(weft.TimedOut, "", request.wait, timeout_s=0.01)
    raises(weft.TimedOut, "", ep.wait_all, [request, request], timeout_s=0.01)
    ep.barrier()
    # Nobody receives it: it is taken back, and never comes.
    if ep.size > 1:
        raises(weft.TimedOut, "", ep.send, following, 5, bytes(1 << 22), timeout_s=0.05)
    ep.barrier()
    ep.send(following, 4, b"just now")
    assert request.wait().len == 8 and request.wait().len == 8 and request.test().len == 8
    assert bytes(into) == b"just now"
    assert not request.cancel()
    ep.barrier()
    if ep.size > 1:
        # Who had heard of it already is told.
        ends = (weft.TimedOut, weft.Error)
        error = raises(ends, "", ep.recv, before, 5, bytearray(1 << 22), timeout_s=0.05)
        assert type(error) is weft.TimedOut or "taken its message back" in str(error), error


def too_long(ep):
    following, before = neighbours(ep)
    for size in (100, 1 << 20):
        request = ep.isend(following, 6, bytes(size))
        error = raises(weft.Truncated, "receive into more memory", ep.recv, before, 6, bytearray(8))
        assert error.peer == before
        request.wait()


def many_at_once(ep):
    following, before = neighbours(ep)
    rows = [np.full(1000 * n + 1, n, dtype="int16") for n in range(200)]
    into = [np.zeros_like(row) for row in rows]
    requests = [ep.irecv(before, n, row) for n, row in enumerate(into)]
    requests += [ep.isend(following, n, row) for n, row in enumerate(rows)]
    statuses = ep.wait_all(requests)
    assert [status.len for status in statuses[:200]] == [row.nbytes for row in rows]
    assert all((got == row).all() for got, row in zip(into, rows))


def dropped_requests(ep):
    """A request that is dropped lets its operation go on, and keeps its memory until then."""
    following, before = neighbours(ep)
    size = 1 << 21
    ep.isend(following, 8, np.full(size, ep.rank, dtype=np.uint8))
    into = np.full(size, 255, dtype=np.uint8)
    kept = sys.getrefcount(into)
    ep.irecv(before, 9, into)
    gc.collect()
    assert sys.getrefcount(into) == kept + 1
    ep.barrier()
    got = np.zeros(size, dtype=np.uint8)
    ep.recv(before, 8, got)
    assert (got == before).all()
    ep.send(following, 9, np.full(size, 77, dtype=np.uint8))
    while sys.getrefcount(into) > kept:
        # Whoever starts something gives back what has ended.
        ep.irecv(before, 10, bytearray(1)).cancel()
    assert (into == 77).all()
    ep.barrier()


def collectives(ep):
    rank, size = ep.rank, ep.size
    for dtype in ("int32", "uint8", "float64", "complex64"):
        for count in (0, 1, 7, 5000):
            data = np.arange(count).astype(dtype) if rank == 1 % size else np.zeros(count, dtype)
            ep.broadcast(1 % size, data)
            assert (data == np.arange(count).astype(dtype)).all()
            data = np.full(count, rank + 1).astype(dtype)
            ep.allreduce(weft.AtomicOp.Sum, data)
            assert (data == size * (size + 1) // 2).all(), data
            data = np.full(count, rank + 1).astype(dtype)
            ep.reduce(0, weft.AtomicOp.Product, data)
            if rank == 0:
                assert (data == np.prod(np.arange(1, size + 1))).all()
            exchanges(ep, count, dtype)
    everywhere(ep)


def exchanges(ep, count, dtype):
    rank, size = ep.rank, ep.size
    block = np.full(count, rank).astype(dtype)
    ranks = np.repeat(np.arange(size), count).astype(dtype)
    into = np.full(size * count, 99).astype(dtype)
    ep.allgather(block, into)
    assert (into == ranks).all()
    into[:] = 99
    if rank == 0:
        ep.gather(0, block, into)
        assert (into == ranks).all()
        ep.scatter(0, ranks, block)
    else:
        ep.gather(0, block)
        ep.scatter(0, None, block)
    assert (block == rank).all()
    into[:] = 99
    ep.alltoall(np.full(size * count, rank).astype(dtype), into)
    assert (into == ranks).all()
    ep.reduce_scatter(weft.AtomicOp.Sum, ranks, block)
    assert (block == rank * size).all()


def everywhere(ep):
    """The other operators, and NaN."""
    ops, rank, size = weft.AtomicOp, ep.rank, ep.size
    all_bits = np.bitwise_or.reduce(np.arange(size))
    for op, expected in ((ops.Min, 0), (ops.Max, size - 1), (ops.BitOr, all_bits)):
        data = np.full(3, rank, dtype="int64")
        ep.allreduce(op, data)
        assert (data == expected).all(), (op, data)
    for op, expected in ((ops.LogicalAnd, 0), (ops.LogicalOr, 1 if size > 1 else 0)):
        data = np.full(3, rank, dtype="uint8")
        ep.allreduce(op, data)
        assert (data == expected).all(), (op, data)
    data = np.full(5, np.nan if rank == 0 else 1.0)
    ep.allreduce(ops.Sum, data)
    assert np.isnan(data).all()


def groups(ep):
    with weft.Group(ep) as everybody:
        assert (everybody.rank, everybody.size) == (ep.rank, ep.size)
        for _ in range(20):
            everybody.barrier()
        everybody.arrive()
        everybody.wait(timeout_s=60)
        everybody.arrive()
        while not everybody.test():
            pass
        for size in (0, 10, 100_000):
            data = np.full(size, everybody.rank, dtype=np.uint8)
            everybody.broadcast(everybody.size - 1, data)
            assert (data == everybody.size - 1).all()
        raises(weft.BadArgument, "", everybody.broadcast, everybody.size, bytearray(3))
        in_order(everybody)
        data = np.full(4, 1.0)
        everybody.allreduce(weft.AtomicOp.Sum, data)
        assert (data == everybody.size).all()
        everybody.barrier()
    raises(weft.Closed, "closed", everybody.barrier)
    pair = [0, ep.size - 1] if ep.size > 1 else [0]
    if ep.rank in pair:
        with weft.Group(ep, pair) as few:
            into = np.zeros(few.size)
            few.allgather(np.array([float(few.rank)]), into)
            assert (into == np.arange(few.size)).all()
            few.barrier()
    else:
        raises(weft.BadArgument, "is not in it", weft.Group, ep, pair)
    raises(weft.BadArgument, "named twice", weft.Group, ep, [0, 0])
    raises(weft.BadArgument, "there is no rank", weft.Group, ep, [ep.size])
    ep.barrier()


def in_order(group):
    count = 20
    for n in range(count):
        group.cast(b"%d of %d" % (n, group.rank))
    all_of_them = [group.deliver(timeout_s=120) for _ in range(count * group.size)]
    assert group.try_deliver() is None
    if group.size > 1:
        raises(weft.TimedOut, "", group.deliver, timeout_s=0.01)
    for rank in range(group.size):
        own = [data for sender, data in all_of_them if sender == rank]
        assert own == [b"%d of %d" % (n, rank) for n in range(count)]
    order = np.frombuffer(repr(all_of_them).encode(), dtype=np.uint8).copy()
    first = order.copy()
    group.broadcast(0, first)
    assert (order == first).all(), "the members' orders differ"

def grids(size):
    """Grids of so many processes in two dimensions."""
    return [(n, size // n) for n in range(1, size + 1) if size % n == 0]


def cell(field, y, x):
    """What the cell at this place of the whole domain holds."""
    return 1 + field * 10_000 + y * 100 + x


def expected(ep, processes, periodic, shape, ghosts, field):
    """All cells of this rank's block after an exchange, as numbers; 0 beyond a wall."""
    (low_y, high_y), (low_x, high_x) = ghosts
    at = divmod(ep.rank, processes[1])
    whole = [n * cells for n, cells in zip(processes, shape)]
    found = np.zeros((low_y + shape[0] + high_y, low_x + shape[1] + high_x))
    for y, x in np.ndindex(found.shape):
        place = [at[0] * shape[0] + y - low_y, at[1] * shape[1] + x - low_x]
        if all(round or 0 <= p < n for p, n, round in zip(place, whole, periodic)):
            found[y, x] = cell(field, place[0] % whole[0], place[1] % whole[1])
    return found


def own(cells, ghosts):
    """The own cells of all, in place."""
    return cells[tuple(slice(low, n - high) for n, (low, high) in zip(cells.shape, ghosts))]


def plans(ep):
    """Every ghost cell, for all grids, of Weft's arrays and the program's in one stage."""
    shape = (5, 7)
    for processes in grids(ep.size):
        for periodic in ((True, True), (True, False), (False, False)):
            for corners in ("turns", "once", "auto", "no"):
                for ghosts in ([(1, 1), (1, 1)], [(2, 0), (1, 3)]):
                    one_plan(ep, processes, periodic, shape, corners, ghosts)


def one_plan(ep, processes, periodic, shape, corners, ghosts):
    with weft.Plan(ep, processes, periodic, corners=corners) as plan:
        made = plan.array(shape, "float64", ghosts)
        cells = np.asarray(made)
        assert cells.dtype == "float64" and not cells.any()
        mine = np.zeros(cells.shape, "int32")
        laid = plan.lay(mine, ghosts)
        stage = plan.stage([made, laid])
        plan.build()
        want = [expected(ep, processes, periodic, shape, ghosts, field) for field in (0, 1)]
        fields = [cells, mine]
        for step in range(3):
            for field, all_cells in zip(fields, want):
                field[:] = 0
                own(field, ghosts)[:] = own(all_cells, ghosts) + step
            # Nobody fills ghost cells that another one is about to clear.
            ep.barrier()
            if step == 1:
                plan.exchange(stage)
            else:
                plan.start(stage)
                if step == 2:
                    while not plan.test(stage):
                        time.sleep(0.001)
                plan.wait(stage, timeout_s=120)
            assert plan.test(stage)
            for field, all_cells in zip(fields, want):
                same = np.where(all_cells, all_cells + step, 0) == field
                if corners == "no":
                    same[corner_cells(ghosts, shape)] = True
                assert same.all(), (processes, periodic, corners, ghosts, field)
            ep.barrier()
    # The views stay good.
    assert (own(cells, ghosts) == own(want[0], ghosts) + 2).all()


def corner_cells(ghosts, shape):
    """Where ghost layers of both axes meet."""
    (low_y, high_y), (low_x, high_x) = ghosts
    y = np.arange(low_y + shape[0] + high_y)[:, None]
    x = np.arange(low_x + shape[1] + high_x)[None, :]
    return ((y < low_y) | (y >= low_y + shape[0])) & ((x < low_x) | (x >= low_x + shape[1]))


def plans_of_all_shapes(ep):
    """One to four axes, all types of cells, many and few of them, and neighbours by name."""
    following, before = neighbours(ep)
    types = ("int8", "B", "int16", "H", "i", "uint32", "q", "uint64", "f", "d", "complex64", "Zd")
    for axes in (1, 2, 3, 4):
        for dtype in types + ("?",):
            ring = {(1,) + (0,) * (axes - 1): following, (-1,) + (0,) * (axes - 1): before}
            shape, ghosts = (3,) * axes, [(1, 2)] + [0] * (axes - 1)
            with weft.Plan(ep, neighbours=ring, corners="no") as plan:
                array = plan.array(shape, dtype, ghosts)
                assert array.shape == [6] + [3] * (axes - 1)
                assert array.ghosts == [(1, 2)] + [(0, 0)] * (axes - 1)
                cells, stage = np.asarray(array), plan.stage([array])
                assert list(cells.shape) == array.shape and cells.flags.c_contiguous
                assert memoryview(array).nbytes == cells.nbytes and memoryview(array).c_contiguous
                plan.build()
                layers = np.arange(ep.rank * 3, ep.rank * 3 + 3).astype(cells.dtype)
                cells[1:4] = layers.reshape((3,) + (1,) * (axes - 1))
                plan.exchange(stage)
                total = 3 * ep.size
                around = [(ep.rank * 3 + n) % total for n in range(-1, 5)]
                for layer, number in zip(cells, around):
                    assert (layer == np.array(number).astype(cells.dtype)).all(), (axes, dtype)
    large(ep, following, before)
    with weft.Plan(ep, neighbours={}, axes=2) as plan:
        empty = plan.array((0, 4), ghosts=0)
        assert np.asarray(empty).shape == (0, 4)
        stage = plan.stage([empty])
        plan.build()
        plan.exchange(stage)


def large(ep, following, before):
    """Faces of many bytes, which go straight, and thin ones, which are packed."""
    for axis in (0, 1):
        ahead = (1, 0) if axis == 0 else (0, 1)
        ring = {ahead: following, tuple(-n for n in ahead): before}
        with weft.Plan(ep, neighbours=ring) as plan:
            array = plan.array((600, 500), ghosts=[(axis == 0) * 1, (axis == 1) * 1])
            cells, stage = np.asarray(array), plan.stage([array])
            plan.build()
            first, last = (cells[:1], cells[-1:]) if axis == 0 else (cells[:, :1], cells[:, -1:])
            for step in range(5):
                cells[:] = ep.rank + step
                ep.barrier()
                plan.exchange(stage)
                assert (first == before + step).all() and (last == following + step).all()
                ep.barrier()


def bad_plans(ep):
    bad, axis = weft.BadArgument, (ep.size, 1)
    raises(bad, "either `processes`", weft.Plan, ep)
    raises(bad, "either `processes`", weft.Plan, ep, axis, neighbours={(1, 0): 0})
    raises(bad, "corners", weft.Plan, ep, axis, corners="round")
    raises(bad, "no axis", weft.Plan, ep, neighbours={})
    raises(bad, "not in a grid", weft.Plan, ep, (0, 1))
    raises(bad, "grid of 1 axes", weft.Plan, ep, (ep.size,), (True, False))
    plan, other = weft.Plan(ep, axis), weft.Plan(ep, axis)
    raises(bad, "no type", plan.array, (4, 4), "float7")
    raises(bad, "`ghosts` has 1 axes", plan.array, (4, 4), ghosts=[1])
    raises(bad, "5 axes", plan.array, (4,) * 5)
    raises(bad, "0 axes", plan.array, ())
    raises(bad, "larger than memory", plan.array, (1 << 62, 1 << 62))
    raises(TypeError, "", plan.array, (4, 4), ghosts="many")
    full = np.zeros((6, 6))
    locked = full.copy()
    locked.flags.writeable = False
    raises(bad, "read-only", plan.lay, locked)
    raises(bad, "read-only", plan.lay, bytes(100))
    for strange in (full[:, :5], full.T, full[::2]):
        raises(bad, "in C order", plan.lay, strange)
    raises(bad, "numpy.from_dlpack", plan.lay, OnlyDlpack(full))
    raises(bad, "6 cells along axis 1", plan.lay, full, ghosts=[1, 4])
    raises(bad, "5 axes", plan.lay, np.zeros((3,) * 5), ghosts=0)
    mine = plan.lay(full)
    raises(BufferError, "look at that", memoryview, mine)
    made = plan.array((4, 4))
    stage = plan.stage([mine, made])
    raises(bad, "of another plan", other.stage, [made])
    raises(bad, "not built", plan.start, stage)
    raises(bad, "not built", plan.wait, stage)
    plan.build()
    raises(bad, "is built", plan.build)
    raises(bad, "is built", plan.array, (4, 4))
    raises(bad, "is built", plan.stage, [made])
    raises(bad, "of another plan", other.start, stage)
    raises(bad, "timeout_s", plan.wait, stage, timeout_s=-1)
    plan.start(stage)
    if ep.size > 1:
        raises(bad, "under way", plan.start, stage)
    plan.wait(stage)
    for each in (plan, other):
        each.close()
        each.close()
    raises(weft.Closed, "plan is closed", plan.start, stage)
    raises(weft.Closed, "plan is closed", plan.wait, stage)
    raises(weft.Closed, "plan is closed", other.build)
    with weft.Plan(ep, (ep.size,)) as line:
        lent = bytearray(10)
        line.lay(lent)
        raises(BufferError, "export", lent.append, 1)
    lent.append(1)
    without_cells(ep)
    if ep.size % 2 == 0:
        another_order(ep)
    refused(ep)


def without_cells(ep):
    """Arrays of no cells take part in a stage as others do."""
    with weft.Plan(ep, (ep.size, 1), (True, False)) as plan:
        none = plan.lay(np.zeros((6, 0)), ghosts=[1, 0])
        made = plan.array((4, 0), ghosts=[1, 0])
        full = plan.array((4, 3), ghosts=[1, 0])
        stage, alone = plan.stage([none, made, full]), plan.stage([none])
        plan.build()
        cells = np.asarray(full)
        assert np.asarray(made).size == 0
        for step in range(3):
            cells[1:5] = ep.rank + step
            ep.barrier()
            plan.exchange(stage)
            plan.exchange(alone)
            assert (cells[0] == (ep.rank - 1) % ep.size + step).all()
            ep.barrier()


def another_order(ep):
    """Neighbours that start different stages are told, and do not wait for ever."""
    with weft.Plan(ep, (ep.size, 1), (True, False)) as plan:
        array = plan.array((4, 30), ghosts=[1, 0])
        stages = [plan.stage([array]) for _ in range(2)]
        plan.build()
        plan.exchange(stages[0])
        ep.barrier()
        plan.start(stages[ep.rank % 2])
        raises(weft.BadArgument, "the same stages", plan.wait, stages[ep.rank % 2], timeout_s=60)
        raises(weft.BadArgument, "the same stages", plan.start, stages[0])
        ep.barrier()


def refused(ep):
    """What one rank says wrong, or two say differently, all are told."""
    bad, last = weft.BadArgument, ep.size - 1
    cases = [
        ("cannot be wider than a block", lambda: ((ep.size, 1), (1, 8), [2, 0])),
        ("the grid has", lambda: ((ep.size + 1, 1), (8, 8), 1)),
    ]
    if ep.size > 1:
        # The last rank is not as wide as the others, or has other ghost layers.
        wide = 8 if ep.rank < last else 9
        cases.append(("8 cells of 8 bytes", lambda: ((ep.size, 1), (8, wide), [1, 0])))
        thick = 1 if ep.rank < last else 2
        cases.append(("2 x 8 cells", lambda: ((ep.size, 1), (8, 8), [thick, 0])))
    for words, make in cases:
        processes, shape, ghosts = make()
        plan = weft.Plan(ep, processes, (True, False))
        stage = plan.stage([plan.array(shape, ghosts=ghosts)])
        raises(bad, words, plan.build)
        raises(bad, "could not be built", plan.start, stage)
        raises(bad, "could not be built", plan.build)
        plan.close()
        ep.barrier()
    nobody = weft.Plan(ep, neighbours={(1, 0): ep.size})
    nobody.stage([nobody.array((4, 4))])
    raises(bad, "was named as a neighbour", nobody.build)
    ep.barrier()


TESTS = [
    messages_of_all_sizes,
    kinds_of_memory,
    bad_memory,
    bad_numbers,
    wildcards,
    timeouts,
    too_long,
    many_at_once,
    dropped_requests,
    collectives,
    regions,
    joined_buffers,
    a_region_closed_during_puts,
    groups,
    plans,
    plans_of_all_shapes,
    bad_plans,
]


def main():
    only = sys.argv[1:]
    job = weft.Job.from_env()
    blobs = job.exchange(b"rank %d" % job.rank)
    assert blobs == [b"rank %d" % rank for rank in range(job.size)], blobs
    with weft.Endpoint(job) as ep:
        assert (ep.rank, ep.size) == (job.rank, job.size)
        for test in TESTS:
            if only and test.__name__ not in only:
                continue
            begun = time.monotonic()
            test(ep)
            ep.barrier()
            if ep.rank == 0:
                print(f"{test.__name__}: good, {time.monotonic() - begun:.2f} s", flush=True)
        assert "endpoint.operations" in ep.counters()
    raises(weft.Closed, "closed", ep.barrier)
    ep.close()
    print(f"rank {job.rank} ended well", flush=True)


if __name__ == "__main__":
    main()
