"""The two reasons why a candidate's sources do not become a program."""


class Unsupported(Exception):
    """The sources need something that the backend does not have, which says nothing about the candidate.

    The text names what is missing and the line, as in "header cublas_v2.h (line 3)".
    """


class CompileError(Exception):
    """The compiler or linker refuses the sources. The text is deterministic, bounded and free of our own paths."""
