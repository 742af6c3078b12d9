"""What came of a unit test on one program."""

from dataclasses import dataclass

IMPORT = "import"  # stands for a test function where test or program cannot be imported
CRASH = "crash"  # and where the program's process ends


@dataclass(frozen=True)
class Failure:
    """A test function that fails, and why. `function` is also `IMPORT`, or how the process ended ("timeout")."""

    function: str
    why: str


@dataclass(frozen=True)
class UnitTestRun:
    """The functions that a program passes, and the others."""

    passed: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()

    @property
    def ok(self) -> bool:
        return bool(self.passed) and not self.failed
