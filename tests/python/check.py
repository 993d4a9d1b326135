"""What the tests share."""


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
