"""The wrappers that are linked into a candidate's library: they record its launches and count what it copies."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from musadata.verifier.compilation.build_cache import build_once, cache_folder, hash_of
from musadata.verifier.compilation.host_toolchain import Toolchain, run_tool

NATIVE_FOLDER = Path(__file__).parent  # part of what a kept library depends on
_COPIES = (NATIVE_FOLDER / "copies.cpp").read_text(encoding="utf-8")
COUNTED_CALLS = tuple(re.findall(r"^WRAP(?:_LOOKUP)?\((\w+),", _COPIES, re.MULTILINE))


@dataclass(frozen=True)
class Wrappers:
    """The wrappers of a device's runtime.

    Attributes:
        kind: names the folder in which they are kept.
        launches: the C++ file with the wrappers of launches.
        launch_calls: the functions that it wraps.
        port: turns CUDA's names, of C++ text or of one function, into the runtime's.
    """

    kind: str
    launches: Path
    launch_calls: Sequence[str]
    port: Callable[[str], str] = str

    def link_flags(self, toolchain: Toolchain, runtime: str, include: Sequence[str]) -> list[str]:
        """The flags and object files with which a candidate's library is linked.

        Args:
            runtime: the runtime's version.
            include: its include flags.

        Raises:
            MusadataError: the host's compiler cannot build the wrappers.
        """
        copies = self.port(_COPIES)

        def build(partial: Path) -> None:
            (partial / "copies.cpp").write_text(copies, encoding="utf-8")
            flags = ["-O1", "-std=c++17", "-fPIC", "-w", "-fvisibility=hidden", *include, f"-I{NATIVE_FOLDER}"]
            for source in (self.launches, partial / "copies.cpp"):
                run_tool([toolchain.compiler, *flags, "-c", source, "-o", partial / f"{source.stem}.o"], source.name)

        key = hash_of(toolchain.identity, runtime, self.launches, NATIVE_FOLDER / "launch_records.h", copies)
        folder = build_once(cache_folder() / f"{self.kind}-{key}", build)
        wraps = [f"-Wl,--wrap={name}" for name in (*self.launch_calls, *map(self.port, COUNTED_CALLS))]
        return [*wraps, str(folder / "launches.o"), str(folder / "copies.o")]
