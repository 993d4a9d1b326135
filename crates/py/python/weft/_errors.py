"""What Weft raises. `str(error)` says what failed, why, and what to do."""


class Error(Exception):
    """Something failed. The base of all that Weft raises."""

    #: The rank that the error speaks of, if it speaks of one.
    peer: "int | None" = None


class BadArgument(Error, ValueError):
    """An argument makes no sense: nothing was done."""


class TimedOut(Error, TimeoutError):
    """The time that was given is over."""


class PeerDead(Error, ConnectionError):
    """Rank `peer` has died, or can no longer be reached."""


class PeerClosed(Error, ConnectionError):
    """Rank `peer` has ended in good order, and what was asked of it can no longer come."""


class Truncated(Error):
    """A message was longer than the memory that it was received into, which has its beginning."""


class Cancelled(Error):
    """The operation was cancelled."""


class Refused(Error):
    """Rank `peer` refused an operation on its memory."""


class Mismatch(Error):
    """Rank `peer` does something else than this one in a collective operation."""


class Closed(Error):
    """The job, endpoint, group, region or plan was closed."""


class Forked(Error):
    """The job or endpoint was opened by the process that this one is a forked child of."""
