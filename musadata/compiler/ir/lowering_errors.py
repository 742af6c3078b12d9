"""Apart from what raises it inside the sandbox, so that the process that asks needs no torch: it costs 300 MB."""


class Unsupported(Exception):
    """Something in the reference that the compiler has no form for; the text is short and countable."""


_MOST_NODES = 1500  # beyond it capturing and lowering take minutes


def check_readable(nodes: int) -> None:
    """Check how many operators a graph has.

    Raises:
        Unsupported: so many that nobody would read their kernels.
    """
    if nodes > _MOST_NODES:
        raise Unsupported("graph too large")
