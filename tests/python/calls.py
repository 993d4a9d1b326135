"""Every call of the Python face, each with all ranks: weft run -n N -- python calls.py

Two to four ranks, within a node and between nodes. Each function is one test; all ranks do the same
ones in the same order."""

import array
import gc
import pickle
import sys
import time

import numpy as np
import weft

SEED = 7


def raises(kind, words, call, *args, **kw):
    """The call raises this kind of error, with these words in it."""
    try:
        call(*args, **kw)
    except kind as error:
        assert words in str(error), f"{words!r} is not in: {error}"
        return error
    raise AssertionError(f"nothing was raised where {kind.__name__} ({words}) was due")


def neighbours(ep):
    return (ep.rank + 1) % ep.size, (ep.rank - 1) % ep.size


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


def regions(ep):
    following, before = neighbours(ep)
    with ep.region(1 << 20) as region:
        view = np.frombuffer(region, dtype=np.uint8)
        assert len(region) == view.size == 1 << 20 and not view.any()
        there = exchanged(ep, region)
        assert len(there) == 1 << 20 and there.rank == following and there.rights == (True, True)
        for tag, size in enumerate((0, 1, 8, 5000, 300_000)):
            ep.put_with(there, 1000, np.full(size, ep.rank + 1, dtype=np.uint8), tag)
            notice = region.wait_notice(timeout_s=60)
            told = (notice.source, notice.value, notice.offset, notice.len)
            assert told == (before, tag, 1000, size), notice
            assert (view[1000 : 1000 + size] == before + 1).all()
        assert region.try_notice() is None
        raises(weft.TimedOut, "", region.wait_notice, timeout_s=0.01)
        ep.barrier()
        region.write(0, b"mine %d" % ep.rank)
        ep.barrier()
        got = bytearray(6)
        ep.get(there, 0, got)
        assert got == b"mine %d" % following
        region.read(0, got)
        assert got == b"mine %d" % ep.rank
        started_on_regions(ep, there, view)
        numbers(ep, there, region)
        out_of_bounds(ep, there)
    assert view[5] == ord(str(ep.rank))
    ep.barrier()
    raises((weft.Refused, weft.BadArgument), "dropped", ep.put, there, 0, b"late")
    raises(weft.Closed, "closed", region.read, 0, got)
    region.close()
    borrowed(ep)


def exchanged(ep, region):
    """The next rank's handle, through bytes and pickles."""
    following, before = neighbours(ep)
    request = ep.isend(before, 11, region.handle.to_bytes())
    into = bytearray(weft.HANDLE_LEN)
    ep.recv(following, 11, into)
    request.wait()
    there = weft.RegionHandle.from_bytes(into)
    assert pickle.loads(pickle.dumps(there)) == there
    return there


def started_on_regions(ep, there, view):
    size = 1 << 18
    ep.barrier()
    data = np.arange(size, dtype=np.uint8)
    requests = [ep.iput(there, n * 1000, data[n * 1000 : (n + 1) * 1000]) for n in range(100)]
    ep.wait_all(requests)
    ep.iput(there, 100_000, data[100_000:])
    ep.flush(there.rank)
    ep.barrier()
    assert (view[:size] == data).all()
    got = np.zeros(size, dtype=np.uint8)
    ep.iget(there, 0, got).wait()
    assert (got == data).all()
    ep.iput_with(there, size, data[:3], 1).wait()
    ep.flush()
    ep.barrier()


def numbers(ep, there, region):
    assert region.wait_notice().value == 1
    ep.barrier()
    np.frombuffer(region, dtype=np.uint8)[:256] = 0
    ep.barrier()
    assert ep.fetch_add(there, 0, 5) == 0
    assert ep.fetch_add(there, 0, -7) == 5
    assert ep.fetch_add(there, 8, 0.5) == 0.0
    assert ep.fetch_add(there, 16, 200, "uint8") == 0
    assert ep.fetch_add(there, 16, 100, "uint8") == 200
    assert ep.compare_swap(there, 0, -2, 40) == -2
    assert ep.compare_swap(there, 0, -2, 41) == 40
    ep.accumulate(there, 64, weft.AtomicOp.Max, np.array([3.0, -1.0]))
    former = np.zeros(2)
    ep.fetch_and_op(there, 64, weft.AtomicOp.Sum, np.array([1.0, 1.0]), former)
    assert (former == [3.0, 0.0]).all()
    bad = weft.BadArgument
    raises(bad, "not aligned", ep.fetch_add, there, 3, 1)
    raises(bad, "no type", ep.fetch_add, there, 0, 1, "int7")
    raises(bad, "no number of type", ep.fetch_add, there, 0, 300, "uint8")
    add, two, three = weft.AtomicOp.Sum, np.zeros(2), np.zeros(3)
    raises(bad, "too many", ep.accumulate, there, 0, add, np.zeros(513))
    raises(bad, "as many numbers", ep.fetch_and_op, there, 0, add, two, three)
    ep.barrier()
    assert np.frombuffer(region, dtype="int64")[0] == 40
    region.write(0, b"mine %d" % ep.rank)


def out_of_bounds(ep, there):
    bad, end = weft.BadArgument, len(there)
    raises(bad, "not all inside", ep.put, there, end, b"1")
    raises(bad, "not all inside", ep.get, there, end - 7, bytearray(8))
    raises(bad, "not all inside", ep.iput, there, (1 << 64) - 1, b"12")
    raises(bad, "bytes", weft.RegionHandle.from_bytes, b"short")
    raises(bad, "no handle", weft.RegionHandle.from_bytes, bytes(weft.HANDLE_LEN))
    ep.put(there, end, b"")
    ep.barrier()


def borrowed(ep):
    rank = ep.rank
    mine = np.arange(1000.0) + rank
    bad = weft.BadArgument
    raises(bad, "without any right", ep.register, mine, get=False, put=False)
    raises(bad, "read-only", ep.register, b"bytes")
    raises(bad, "in C order", ep.register, mine[::2])
    with ep.register(mine, put=False) as region:
        raises(BufferError, "array", memoryview, region)
        there = exchanged(ep, region)
        got = np.zeros(1000)
        ep.get(there, 0, got)
        assert (got == np.arange(1000.0) + there.rank).all()
        raises(bad, "right to put", ep.put, there, 0, got)
        ep.barrier()
    # The memory is this program's again.
    mine.resize(10, refcheck=True)
    ep.barrier()


def a_region_closed_during_puts(ep):
    """Puts that are under way end well or are refused; nobody writes the memory afterwards."""
    for _ in range(5):
        mine = np.zeros(1 << 21, dtype=np.uint8)
        region = ep.register(mine)
        there = exchanged(ep, region)
        ep.barrier()
        data = np.full(1 << 21, 1, dtype=np.uint8)
        requests = [ep.iput(there, 0, data) for _ in range(4)]
        region.close()
        mine[:] = 7
        for request in requests:
            try:
                request.wait()
            except weft.Refused as error:
                assert "dropped" in str(error) and error.peer == there.rank
        ep.barrier()
        assert (mine == 7).all()


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
    a_region_closed_during_puts,
    groups,
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
