"""What type checkers must understand of the package: it is not run."""

import weft


def talk(endpoint: weft.Endpoint) -> int:
    request: weft.Request = endpoint.isend(1, 7, b"hello")
    status: weft.Status = endpoint.recv(weft.ANY, weft.Tag(7, ignore=1), bytearray(5), timeout_s=1)
    endpoint.allreduce(weft.AtomicOp.Sum, bytearray(8))
    with endpoint.region(100) as region, weft.Group(endpoint, [0, 1]) as group:
        handle: weft.RegionHandle = region.handle
        endpoint.put_with(handle, 0, memoryview(b"1"), 5)
        sender, data = group.deliver()
        notice: weft.Notice = region.wait_notice()
        op, into = weft.AtomicOp.SwapIfLess, bytearray(1)
        started: weft.Request = endpoint.icompare_and_op(handle, 0, op, b"1", b"2", into)
        endpoint.fence(handle.rank)
        started.wait()
    with endpoint.join(1, 5, 100) as end:
        end.write(0, len(end) // 2, 10)
        end.flag(3)
        flag: int = end.wait_flag(timeout_s=1)
        print(end.peer, end.peer_len, memoryview(end)[0], flag)
    return request.wait().len + status.source + sender + len(data) + notice.len


def exchange(endpoint: weft.Endpoint, mine: bytearray) -> list[int]:
    with weft.Plan(endpoint, (2, 1), periodic=(True, False), corners="no") as plan:
        field: weft.Array = plan.array((4, 8), "float32", ghosts=[(1, 2), 0])
        stage: weft.Stage = plan.stage([field, plan.lay(memoryview(mine))])
        plan.build()
        plan.start(stage)
        if not plan.test(stage):
            plan.wait(stage, timeout_s=1)
    weft.Plan(endpoint, neighbours={(-1, 0): 1}, axes=2).close()
    return field.shape


def join() -> weft.Endpoint:
    try:
        return weft.Endpoint(weft.Job.from_env())
    except weft.PeerDead as error:
        print(error.peer)
        raise
