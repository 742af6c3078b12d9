"""From a candidate's sources to a library that can be loaded: a pure function with a cache."""

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

from musadata.errors import MusadataError
from musadata.verifier.backends.emulated.emulated_toolchain import (
    Headers,
    build_headers,
    build_libraries,
    cuda_headers,
)
from musadata.verifier.backends.emulated.emulated_units import Units, assemble, begin_with_standard_headers
from musadata.verifier.backends.emulated.emulator_errors import (
    may_clash,
    may_lack_headers,
    may_lack_standard_headers,
    may_need_full_headers,
    name_missing_feature,
)
from musadata.verifier.backends.emulated.execution_spaces import find_misplaced
from musadata.verifier.backends.emulated.lines import write_lines
from musadata.verifier.backends.native.watched_calls import COUNTED_CALLS
from musadata.verifier.backends.torch_abi.bridge import include_folder
from musadata.verifier.compilation.build_cache import hash_code, hash_of, keep_library
from musadata.verifier.compilation.compile_errors import CompileError, Unsupported
from musadata.verifier.compilation.contained_run import CompileLimits, Finished, run_compiler
from musadata.verifier.compilation.diagnostics import Diagnostic, read_diagnostics, render_diagnostics
from musadata.verifier.compilation.host_toolchain import find_toolchain
from musadata.verifier.compilation.includes import refuse_missing_includes
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.compilation.units import write_headers
from musadata.verifier.rules.native.linked_names import RULES, check_objects

_HERE = Path(__file__).parent
_LIBRARY = "candidate.so"
_WRAPS = ("-Wl,--wrap=memcpy", "-Wl,--wrap=memmove")  # see csrc/runtime/host_copies.cpp


def compile_sources(
    sources: CandidateSources,
    *,
    lines: bool = False,
    limits: CompileLimits = CompileLimits(),  # noqa: B008 (frozen)
    include: tuple[Path, ...] = (),
) -> Path:
    """The library of a candidate, made now or taken from the cache. Runs no code of the candidate.

    Args:
        include: further folders of headers that are trusted.

    Raises:
        CompileError: the sources are wrong; the text names their own lines. The same sources give the same text.
        Unsupported: they need something that is not emulated.
        MusadataError: this machine has no usable compiler.
    """
    headers = build_headers(sources.default_defines(), lines, include=include)
    libraries = build_libraries()
    built = headers.prelude, libraries.runtime.parent.name, libraries.support.parent.name
    code = hash_code(_HERE, RULES, importlib.metadata.version("libclang"))
    key = hash_of(sources.digest(), *built, find_toolchain().identity, *include, code)

    def compile_into(work: Path, kept: Path) -> Path:
        library = _compile(work, sources, headers, lines, limits)
        if lines:
            write_lines(work, library, kept, limits)
        return library

    return keep_library("artifacts", key, compile_into)


def _compile(work: Path, sources: CandidateSources, headers: Headers, lines: bool, limits: CompileLimits) -> Path:
    units = assemble(sources)
    if not headers.include:  # which bring along names of their own
        refuse_missing_includes(sources)
    library = _compile_units(work, units, sources, headers, lines, limits)
    misplaced = find_misplaced(sources, (cuda_headers(), include_folder()), work, limits)
    if misplaced:
        raise CompileError(render_diagnostics(misplaced, {**units.shown, **dict(sources.headers)}))
    return library


def _compile_units(
    work: Path, units: Units, sources: CandidateSources, headers: Headers, lines: bool, limits: CompileLimits
) -> Path:
    write_headers(units.headers, work)
    run = _Compilation(work, limits)
    if run.succeeds(units.first, headers):
        return run.library
    errors = read_diagnostics(run.last.stderr, units.shown)
    if may_lack_standard_headers(errors):
        units = begin_with_standard_headers(units)
        if run.succeeds(units.first, headers):
            return run.library
        errors = read_diagnostics(run.last.stderr, units.shown)
    if units.apart != units.first and may_clash(errors):
        if run.succeeds(units.apart, headers):
            return run.library
        errors = read_diagnostics(run.last.stderr, units.shown)
    if may_need_full_headers(errors, run.last.stderr):
        full = build_headers(sources.default_defines(), lines, full=True, include=headers.include)
        if run.succeeds(units.apart, full):
            return run.library
        errors = read_diagnostics(run.last.stderr, units.shown) or errors
    raise _refusal(errors, units, run.last)


def _refusal(errors: tuple[Diagnostic, ...], units: Units, last: Finished) -> Exception:
    # A header that is left out is to blame for unknown names alone, and for functions that the linker does not find.
    blamed = units.left_out if not errors or may_lack_headers(errors) else ()
    missing = ", ".join(blamed) or name_missing_feature(errors)
    if missing:
        return Unsupported(missing)
    shown = render_diagnostics(errors, units.shown)
    if shown:
        return CompileError(shown)
    said = last.stderr.strip().splitlines()[:1] or [f"exit code {last.code}"]  # of this machine, so never kept
    return MusadataError(f"fails for no reason that lies in the sources ({said[0][:200]})", where="C++ compiler")


class _Compilation:
    """Attempts at one candidate, each with its own units and headers; `last` is how the last one ended."""

    def __init__(self, work: Path, limits: CompileLimits):
        self.library = work / _LIBRARY
        self.last = Finished(0, "")
        self._work, self._limits = work, limits
        self._toolchain = find_toolchain()

    def succeeds(self, units: Sequence[str], headers: Headers) -> bool:
        """Whether `units` compile and link.

        Raises:
            CompileError: a limit was reached, which another attempt would only reach again.
        """
        objects = []
        flags = [*headers.flags, "-fmax-errors=20", "-fdiagnostics-plain-output", "-I.", "-include", headers.prelude]
        for index, unit in enumerate(units):
            (self._work / f"unit{index}.cpp").write_text(unit, encoding="utf-8", errors="surrogateescape")
            objects.append(f"unit{index}.o")
            if not self._run([*flags, "-c", f"unit{index}.cpp", "-o", objects[-1]]):
                return False
        return self._links(objects, headers.full)

    def _links(self, objects: list[str], full: bool) -> bool:
        checked = check_objects([self._work / name for name in objects], self._toolchain.compiler, COUNTED_CALLS)
        libraries = build_libraries()
        inputs = [*map(str, checked), str(libraries.runtime), str(libraries.checker)]
        if full:
            # Python's own symbols are found when the library is opened, so undefined ones cannot be refused here.
            inputs += [*self._toolchain.library_flags, "-ltorch", "-ltorch_python"]
        else:
            inputs += [str(libraries.support), str(libraries.bridge), "-Wl,-z,defs"]
        flags = ["-shared", *self._toolchain.linker_flags, "-Wl,--build-id=none", *_WRAPS]
        return self._run([*flags, *inputs, "-o", _LIBRARY, "-lm"])

    def _run(self, arguments: list[str]) -> bool:
        self.last = run_compiler([self._toolchain.compiler, *arguments], self._work, self._limits)
        return self.last.code == 0
