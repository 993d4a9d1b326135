"""Tests of calls.py: regions, and joined buffers."""

import pickle

import numpy as np
import weft
from check import neighbours, raises


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
        fences(ep, there, region, view)
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


def fences(ep, there, region, view):
    """What comes after a fence is done after what was before, though it is short."""
    assert region.wait_notice().value == 1
    size = 1 << 18
    for value in range(5):
        request = ep.iput(there, 0, np.full(size, value, dtype=np.uint8))
        ep.fence(there.rank)
        ep.put_with(there, 0, b"", value)
        assert region.wait_notice(timeout_s=60).value == value
        assert (view[:size] == value).all()
        request.wait()
        ep.barrier()
    raises(weft.BadArgument, "rank", ep.fence, ep.size)


def numbers(ep, there, region):
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
    started_on_numbers(ep, there)
    bad = weft.BadArgument
    raises(bad, "not aligned", ep.fetch_add, there, 3, 1)
    raises(bad, "no type", ep.fetch_add, there, 0, 1, "int7")
    raises(bad, "no number of type", ep.fetch_add, there, 0, 300, "uint8")
    add, two, three = weft.AtomicOp.Sum, np.zeros(2), np.zeros(3)
    raises(bad, "too many", ep.accumulate, there, 0, add, np.zeros(513))
    raises(bad, "as many numbers", ep.fetch_and_op, there, 0, add, two, three)
    less = weft.AtomicOp.SwapIfLess
    raises(bad, "`comparands` must", ep.compare_and_op, there, 0, less, three, two, two)
    raises(bad, "`into` must", ep.icompare_and_op, there, 0, less, two, two, np.zeros(2, "int64"))
    raises(bad, "comparand", ep.fetch_and_op, there, 0, less, two, two)
    raises(bad, "no comparands", ep.compare_and_op, there, 0, add, two, two, two)
    raises(bad, "read-only", ep.ifetch_and_op, there, 0, add, two, bytes(16))
    raises(bad, "not aligned", ep.iaccumulate, there, 4, add, two)
    ep.barrier()
    assert np.frombuffer(region, dtype="int64")[0] == 40
    region.write(0, b"mine %d" % ep.rank)


def started_on_numbers(ep, there):
    ops, at = weft.AtomicOp, 128
    former = np.full(3, 9, dtype="int32")
    ep.iaccumulate(there, at, ops.Sum, np.array([5, -5, 0], "int32")).wait()
    request = ep.ifetch_and_op(there, at, ops.BitOr, np.array([2, 0, 1], "int32"), former)
    assert request.wait().source == there.rank
    assert (former == [5, -5, 0]).all()
    # Where the comparand is less than what is there.
    comparands, operands = np.array([7, -6, 0], "int32"), np.array([70, 60, 50], "int32")
    ep.compare_and_op(there, at, ops.SwapIfLess, comparands, operands, former)
    assert (former == [7, -5, 1]).all()
    request = ep.icompare_and_op(there, at, ops.SwapIfEqual, former, comparands, former)
    # They are copied as it starts.
    operands[:] = comparands[:] = 0
    request.wait()
    assert (former == [7, 60, 50]).all()
    ep.fetch_and_op(there, at, ops.Read, former, former)
    assert (former == [7, 60, 50]).all()


def joined_buffers(ep):
    """Each two ranks, one pair after the other; a lone rank joins itself."""
    for low in range(ep.size):
        for high in range(low, ep.size):
            if ep.rank in (low, high) and (low != high or ep.size == 1):
                joined_with(ep, low + high - ep.rank)
    raises(weft.BadArgument, "rank", ep.join, ep.size, 1, 8)


def joined_with(ep, other):
    half = 200_000
    with ep.join(other, 5, 2 * half + ep.rank) as end:
        view = np.frombuffer(end, dtype=np.uint8)
        # The peer writes to the first half, perhaps it does already.
        assert len(end) == view.size == 2 * half + ep.rank and not view[half:].any()
        assert end.peer == other and end.peer_len == 2 * half + other
        for number, size in enumerate((1, 0, 700, 20_000, 70_000, half)):
            end.fill(half, np.full(size, 10 * ep.rank + number + 1, dtype=np.uint8))
            end.write(half, 0, size)
            end.flag(number)
            assert end.wait_flag(timeout_s=60) == number
            assert (view[:size] == 10 * other + number + 1).all()
            end.look(0, into := bytearray(size))
            assert into == view[:size].tobytes()
            # The next round writes over both.
            end.flush()
            end.flag(100 + number)
            assert end.wait_flag() == 100 + number
        if ep.rank <= other:
            # The other one waits for the first flag.
            assert end.try_flag() is None
            raises(weft.TimedOut, "", end.wait_flag, timeout_s=0.01)
            end.flag((1 << 64) - 1)
        if ep.rank >= other:
            assert end.wait_flag() == (1 << 64) - 1
        for number in range(50):
            end.flag(number)
        assert [end.wait_flag() for _ in range(50)] == list(range(50))
        bad = weft.BadArgument
        raises(bad, "not all inside", end.write, len(end) - 1, 0, 2)
        raises(bad, "not all inside", end.write, 0, end.peer_len - 1, 2)
        raises(bad, "not all inside", end.fill, len(end), b"1")
        raises(bad, "not all inside", end.look, len(end), bytearray(1))
    raises(weft.Closed, "joined buffer is closed", end.flag, 1)
    raises(weft.Closed, "joined buffer is closed", end.wait_flag)
    end.close()
    assert view[0] == 10 * other + 6


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
