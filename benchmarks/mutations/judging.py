"""What becomes of one mutant: caught, caught by the sanitiser, the same machine code, or survived."""

import ast
import subprocess
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from benchmarks.mutations.operators import Mutant
from musadata.config import BackendType, VerifierConfig
from musadata.records import ErrorClass
from musadata.sandbox import Limits, Sandbox
from musadata.verifier import Verifier
from musadata.verifier.backend_choice import open_backend
from musadata.verifier.protocol.message_encoding import serve_candidate
from musadata.verifier.protocol.messages import Compiled, CompileRequest, Refused
from musadata.verifier.rules.catalogue import EXECUTE_TIMEOUT
from tests.adversarial.programs import Exercise

# An honest kernel needs far less than these seconds; many mutants never end.
CONFIG = VerifierConfig(backend=BackendType.EMULATED, input_sets=4, seconds=10.0)
_SEEDS = 2
_BATTERY_SECONDS = 60.0


@dataclass(frozen=True)
class Fate:
    """`status`: caught, sanitised (caught with --sanitize only), same_code, survived, stillborn, undecided.

    `difference`: of a survivor, where the battery saw other bits than the original's; empty if nowhere.
    """

    key: str
    program: str
    kind: str
    line: int
    before: str
    after: str
    status: str
    error_class: str = ""
    rule: str = ""
    difference: str = ""


class Court:
    """Two warm verifiers, without and with the sanitiser, and a sandbox for the battery; opened when first needed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._verifiers: dict[bool, Verifier] = {}
        self._battery: Sandbox | None = None
        self._backend = open_backend(CONFIG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def judge(self, mutant: Mutant, original: str, exercise: Exercise) -> Fate:
        """Try the cheap ways to catch a mutant first."""
        fate = Fate(mutant.key, mutant.program, mutant.kind, mutant.line, mutant.before, mutant.after, "survived")
        for sanitize in (False, True):
            verdict = self._verifier(sanitize).verify(exercise.task, mutant.source, exercise.shape_sets)
            rule = verdict.findings[0].rule if verdict.findings else ""
            named = replace(fate, error_class=str(verdict.error_class or ""), rule=rule)
            if verdict.error_class is ErrorClass.COMPILE:
                return replace(named, status="stillborn")
            if verdict.error_class is ErrorClass.INFRA:
                return replace(named, status="undecided")
            if not verdict.accepted and not sanitize:
                return replace(named, status="caught")
            # Checking every access takes long: running out of time there says nothing.
            if not verdict.accepted and rule != EXECUTE_TIMEOUT.id:
                fate = replace(named, status="sanitised")
        difference, same_code = self._compare(mutant, original, exercise)
        # Barriers make no code for one thread at a time, so that the same code proves nothing about them.
        if same_code and mutant.kind != "barriers" and fate.status == "survived":
            return replace(fate, status="same_code")
        return replace(fate, difference=difference)

    def _verifier(self, sanitize: bool) -> Verifier:
        if sanitize not in self._verifiers:
            self._verifiers[sanitize] = self._stack.enter_context(Verifier(replace(CONFIG, sanitize=sanitize)))
        return self._verifiers[sanitize]

    def _compare(self, mutant: Mutant, original: str, exercise: Exercise) -> tuple[str, bool]:
        paths: list[str] = []

        def compile_sources(question: object) -> Compiled | Refused:
            assert isinstance(question, CompileRequest)
            built = self._backend.compile(question.sources)
            paths.append(built.path)
            return Refused(built.error) if built.error else Compiled(built.path)

        shape_sets = [[asdict(spec) for spec in shapes] for shapes in (exercise.task.inputs, *exercise.shape_sets)]
        arguments = (original, mutant.source, _init(exercise), shape_sets, self._backend.child, _SEEDS)
        function = "benchmarks.mutations.battery:compare"
        outcome = self._sandbox().call(function, *arguments, serve=serve_candidate(compile_sources))
        codes = {_code(path) for path in paths}
        return str(outcome.value if outcome.ok else outcome.message or outcome.status), len(codes) == 1

    def _sandbox(self) -> Sandbox:
        if self._battery is None:
            backend = self._backend
            self._battery = self._stack.enter_context(
                Sandbox(
                    (*backend.preload, "benchmarks.mutations.battery"),
                    setup=backend.setup,
                    limits=Limits(seconds=_BATTERY_SECONDS, memory_mb=6144),
                    readable=backend.readable,
                    environment=dict(backend.environment),
                )
            )
        return self._battery


def _init(exercise: Exercise) -> list[Any]:
    """The constructor's arguments, which are plain literals in our references."""
    tree = ast.parse(exercise.task.reference)
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "get_init_inputs")
    returned = next(n for n in ast.walk(function) if isinstance(n, ast.Return))
    return list(ast.literal_eval(returned.value or ast.List([])))


def _code(path: str) -> str:
    """The instructions and constants of a library, without its symbols."""
    sections = [flag for name in (".text", ".rodata", ".data") for flag in ("-j", name)]
    done = subprocess.run(["objdump", "-s", *sections, path], capture_output=True, text=True, check=True)
    return done.stdout.partition("\nContents")[2]
