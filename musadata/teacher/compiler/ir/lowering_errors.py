"""Apart from what raises it inside the sandbox, so that the process that asks needs no torch: it costs 300 MB."""


class Unsupported(Exception):
    """Something in the reference that the compiler has no form for; the text is short and countable."""
