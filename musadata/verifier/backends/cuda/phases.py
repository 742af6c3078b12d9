"""nvcc's phases, with the work that all candidates have in common done once.

nvcc preprocesses and parses a file for the host, then for the device, and compiles what became of its host part. Nearly
all of that file is headers, which take 4.8 of a candidate's 5 CPU seconds. So the headers, a prelude with which every
candidate begins, go through the phases once, and the output of each phase is kept:

- host.ii and device.ii: the preprocessed prelude. A candidate's own text is preprocessed alone and put behind it;
- host.macros and device.macros: the macros that the prelude leaves behind;
- host.cpp: what cudafe++ makes of the prelude for the host's compiler, precompiled as prelude.h. What it makes of a
  candidate begins with the same bytes; where it does not, all of it is compiled.

The commands are those of nvcc's dry run, so the output is nvcc's, device code byte for byte; the phases for host and
device run in parallel.
"""

import itertools
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from musadata.computed_once import ComputedOnce
from musadata.errors import MusadataError
from musadata.verifier.compilation.build_cache import build_once, cache_folder, hash_of
from musadata.verifier.compilation.contained_run import CompileLimits, run_contained
from musadata.verifier.compilation.host_toolchain import Toolchain
from musadata.verifier.compilation.precompile import precompile

SOURCE = "candidate.cu"
HEADERS = "@HEADERS@"  # in a command: the folder of the prelude's headers, or one of empty files once they are included
_SHARED = "@SHARED@"
_TOOLS = ("cudafe++", "cicc", "ptxas", "fatbinary")
_PHASES = {"host.ii", "device.ii", "object", *_TOOLS}
_SIDES = ("host", "device")
_ONCE = re.compile(rb"#\s*pragma\s+once")
_SCRIPT_NAME = "compile.sh"
_REMEDY = "none is needed: nvcc compiles the whole file"
_MODULE_ID = "_00000000_12_candidate_cu_00000000"
_LIMITS = CompileLimits(seconds=600, memory_mb=16384, output_mb=1024)
# The script; the words of its function `failed` are those by which `run_contained` knows a limit.
_TEMPLATE = Path(__file__).with_name("phases.sh.template")


@dataclass(frozen=True)
class Prelude:
    """What every candidate begins with.

    Attributes:
        text: the prelude itself.
        headers: the folder of its own headers.
        whole: it includes all that candidates may include of `headers`.
        unused: further headers that a candidate may include but of which it needs nothing.
    """

    text: str
    headers: Path
    whole: bool = True
    unused: tuple[str, ...] = ()


@ComputedOnce
def share_phases(toolchain: Toolchain, nvcc: str, command: tuple[str, ...], prelude: Prelude) -> Path | None:
    """The script that does to a file without the prelude what `command` does to one that begins with it.

    Args:
        nvcc: its version.
        command: compiles the file SOURCE, with HEADERS where the folder of the prelude's headers belongs.

    Returns:
        A script for sh, to be run in the candidate's folder; None where nvcc's phases are not as they should be.
    """
    key = hash_of(toolchain.identity, nvcc, *command, repr(prelude), prelude.headers, Path(__file__), _TEMPLATE)

    def build(partial: Path) -> None:
        try:
            _Builder(toolchain, partial, prelude, _read_dry_run(command)).build()
        except (MusadataError, ValueError) as error:  # it would fail again, so the failure is kept, with its reason
            (partial / _SCRIPT_NAME).unlink(missing_ok=True)
            (partial / "unusable.txt").write_text(f"{error}\n", encoding="utf-8")

    script = build_once(cache_folder() / f"cuda-phases-{key}", build) / _SCRIPT_NAME
    return script if script.exists() else None


@dataclass(frozen=True)
class _DryRun:
    """nvcc's variables, and the words of each phase's command."""

    variables: Mapping[str, str]
    phases: Mapping[str, list[str]]

    def file(self, phase: str, option: str = "-o") -> str:
        """The file that an option of a phase names."""
        words = self.phases[phase]
        return words[words.index(option) + 1]


def _read_dry_run(command: Sequence[str]) -> _DryRun:
    """What nvcc would do for `command`.

    Raises:
        MusadataError: it is not the phases that this module knows.
    """
    with tempfile.TemporaryDirectory(prefix="musadata-nvcc-") as folder:
        (Path(folder) / SOURCE).touch()
        shown = run_contained([*command, "--dryrun", "--keep"], Path(folder), _LIMITS).stderr
    variables: dict[str, str] = {}
    phases: dict[str, list[str]] = {}
    for text in (line.removeprefix("#$ ") for line in shown.splitlines() if line.startswith("#$ ")):
        assignment = re.fullmatch(r"(\w+)=(.*)", text)
        if assignment and not phases:
            variables[assignment[1]] = assignment[2]
            continue
        words = [re.sub(r"^\$(\w+)", lambda found: variables.get(found[1], ""), word) for word in shlex.split(text)]
        if words and Path(words[0]).name != "rm":
            phases.setdefault(_phase_of(words), []).extend(words)
    if phases.keys() != _PHASES or any(words.count("-o") > 1 for words in phases.values()):
        raise MusadataError("has other phases than are known", where="nvcc", remedy=_REMEDY)
    return _DryRun(variables, phases)


def _phase_of(words: Sequence[str]) -> str:
    tool = Path(words[0]).name
    if tool in _TOOLS:
        return tool
    if "-E" in words:
        return "device.ii" if any(word.startswith("-D__CUDA_ARCH__=") for word in words) else "host.ii"
    return "object" if "-c" in words else ""


class _Builder:
    """Puts a prelude through the phases, and writes the script that goes on from there."""

    def __init__(self, toolchain: Toolchain, folder: Path, prelude: Prelude, dry_run: _DryRun) -> None:
        self._toolchain = toolchain
        self._folder = folder
        self._prelude = prelude
        self._dry_run = dry_run

    def build(self) -> None:
        """Fill the folder.

        Raises:
            MusadataError: a phase fails, or candidates could not be put behind this prelude.
        """
        (self._folder / "module_id").write_text(_MODULE_ID)
        with tempfile.TemporaryDirectory(prefix="musadata-nvcc-") as name:
            work = Path(name)
            (work / SOURCE).write_text(self._prelude.text, encoding="utf-8")
            for side in _SIDES:
                self._preprocess(side, work)
            self._blank_headers()
            for side in _SIDES:
                self._check_second_time(side, work)
            host_code = self._split(work)
        (self._folder / "host.cpp").write_bytes(host_code)
        precompile(self._toolchain, host_code.decode() + "\n", self._flags(), self._folder)
        (self._folder / _SCRIPT_NAME).write_text(self._script(len(host_code)), encoding="utf-8")

    def _blank_headers(self) -> None:
        """Empty files by the names of headers that a candidate has already, or does not need."""
        headers = self._prelude.headers
        if self._prelude.whole:
            own = {str(header.relative_to(headers)) for header in headers.rglob("*") if header.is_file()}
        else:
            own = self._unguarded()
        for name in {*own, *self._prelude.unused}:
            blank = self._folder / "blank" / name
            blank.parent.mkdir(parents=True, exist_ok=True)
            blank.touch()

    def _unguarded(self) -> set[str]:
        """By what names those files are included that the prelude has and that no macro keeps from a second time."""
        words = [word for side in _SIDES for word in self._dry_run.phases[f"{side}.ii"]]
        named = [word.removeprefix("-I") for word in words if word.startswith("-I")]
        named += [place for option, place in itertools.pairwise(words) if option == "-isystem"]
        places = {Path(place.replace(HEADERS, str(self._prelude.headers))).resolve() for place in named}
        return {
            str(path.relative_to(place))
            for path in {path.resolve() for side in _SIDES for path in self._included(side)}
            if path.is_file() and _ONCE.search(path.read_bytes())
            for place in places
            if path.is_relative_to(place)
        }

    def _included(self, side: str) -> set[Path]:
        """The files of which the preprocessed prelude consists."""
        text = (self._folder / f"{side}.ii").read_bytes()
        return {Path(name.decode()) for name in re.findall(rb'^# \d+ "(/[^"]+)"', text, re.MULTILINE)}

    def _preprocess(self, side: str, work: Path) -> None:
        """Write the preprocessed prelude and its macros."""
        words = self._dry_run.phases[f"{side}.ii"]
        at = words.index("-include")
        bare = _replaced([*words[:at], *words[at + 2 :]], {SOURCE: "/dev/null"})
        output = self._dry_run.file(f"{side}.ii")
        self._run(_replaced(words, {output: f"{side}.ii"}), work)
        self._run([*_replaced(words, {output: "all.macros"}), "-dM"], work)
        self._run([*_replaced(bare, {output: "no.macros"}), "-dM"], work)
        given = set((work / "no.macros").read_bytes().splitlines(keepends=True))
        macros = (work / "all.macros").read_bytes().splitlines(keepends=True)
        (self._folder / f"{side}.macros").write_bytes(b"".join(line for line in macros if line not in given))
        shutil.copyfile(work / f"{side}.ii", self._folder / f"{side}.ii")

    def _check_second_time(self, side: str, work: Path) -> None:
        """See that the prelude comes to nothing the second time, by blank files and by macros.

        Raises:
            MusadataError: it does not: #pragma once is not remembered.
        """
        self._run(self._own_preprocess(side), work)
        again = (work / f"own.{side}.ii").read_bytes()
        left = any(line.strip() and not line.startswith(b"#") for line in again.splitlines())
        whole, headers = self._prelude.whole, self._prelude.headers
        foreign = [path for path in self._included(side) if whole and not path.is_relative_to(headers)]
        if left or any(_ONCE.search(path.read_bytes()) for path in foreign if path.is_file()):
            raise MusadataError("has headers that may not be included twice", where="the prelude", remedy=_REMEDY)

    def _own_preprocess(self, side: str) -> list[str]:
        words = list(self._dry_run.phases[f"{side}.ii"])
        at = words.index("-include")
        words[at : at + 2] = ["-imacros", f"{_SHARED}/{side}.macros"]
        return _replaced(words, {self._dry_run.file(f"{side}.ii"): f"own.{side}.ii"}, f"{_SHARED}/blank")

    def _split(self, work: Path) -> bytes:
        """What cudafe++ makes of the prelude, without what it appends to every file."""
        shutil.copyfile(work / "host.ii", work / self._dry_run.file("host.ii"))
        self._run(self._parser("cudafe++"), work)
        code = (work / self._dry_run.file("cudafe++", "--gen_c_file_name")).read_bytes()
        stub = self._dry_run.file("cudafe++", "--stub_file_name")
        end = code.find(f'\n# 1 "{stub}"\n'.encode())
        if end < 0:
            raise MusadataError("names no stub in what it writes", where="cudafe++", remedy=_REMEDY)
        return code[:end].rstrip(b"\n")

    def _parser(self, tool: str) -> list[str]:
        """The command of cudafe++ or cicc; both take the name of the module that nvcc has one of them make up."""
        words = [word for word in self._dry_run.phases[tool] if word != "--gen_module_id_file"]
        for option, value in (("--module_id_file_name", f"{_SHARED}/module_id"), ("--orig_src_path_name", SOURCE)):
            if option in words:
                words[words.index(option) + 1] = value
        return words

    def _flags(self) -> list[str]:
        """With what the host's compiler compiles host code, without any file."""
        words = self._dry_run.phases["object"][1:]
        files = {self._dry_run.file("cudafe++", "--gen_c_file_name"), self._dry_run.file("object")}
        words = [word for word in words if word not in {"-c", "-x", "c++", "-o", *files}]
        return _replaced(words, {}, str(self._folder / "blank"))

    def _script(self, size: int) -> str:
        dry_run = self._dry_run
        host_code = dry_run.file("cudafe++", "--gen_c_file_name")
        compile_all = _replaced(dry_run.phases["object"], {}, f"{_SHARED}/blank")
        at = compile_all.index(host_code)
        compile_own = [*compile_all[:at], "-include", f"{_SHARED}/prelude.h", "own.cpp", *compile_all[at + 1 :]]
        return _TEMPLATE.read_text(encoding="utf-8").format(
            source=SOURCE,
            variables=_exports(dry_run),
            preprocess_host=_shell(self._own_preprocess("host")),
            preprocess_device=_shell(self._own_preprocess("device")),
            host_text=dry_run.file("host.ii"),
            device_text=dry_run.file("device.ii"),
            cudafe=_shell(self._parser("cudafe++")),
            cicc=_shell(self._parser("cicc")),
            ptxas=_shell(dry_run.phases["ptxas"]),
            fatbinary=_shell(dry_run.phases["fatbinary"]),
            bytes=size,
            after=size + 1,
            host_code=host_code,
            compile_own=_shell(compile_own),
            compile_all=_shell(compile_all),
        )

    def _run(self, words: Sequence[str], work: Path) -> None:
        """Run a phase on the prelude, with its headers in place."""
        line = _shell(_replaced(words, {}, str(self._prelude.headers)))
        text = f"shared={shlex.quote(str(self._folder))}\n{_exports(self._dry_run)}\n{line}"
        done = run_contained(["/bin/sh", "-c", text], work, _LIMITS)
        if done.code != 0:
            message = " ".join((done.stderr.splitlines() or ["no message"])[:1])[:300]
            raise MusadataError(f"fails ({message})", where=Path(words[0]).name, remedy=_REMEDY)


def _replaced(words: Sequence[str], changes: Mapping[str, str], headers: str = HEADERS) -> list[str]:
    return [changes.get(word, word).replace(HEADERS, headers) for word in words]


def _shell(words: Sequence[str]) -> str:
    return shlex.join(words).replace(_SHARED, '"$shared"')


def _exports(dry_run: _DryRun) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in dry_run.variables.items())
