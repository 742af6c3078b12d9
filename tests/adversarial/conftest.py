"""One warm verifier, and one warm naive harness, for all tests of this folder."""

from collections.abc import Callable, Iterator

import pytest

from musadata.config import BackendType, VerifierConfig
from musadata.sandbox import Limits, Sandbox
from musadata.verifier import Verifier
from musadata.verifier.backend_choice import open_backend
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.message_encoding import serve_candidate
from tests.adversarial.programs import Program, read_exercise

CONFIG = VerifierConfig(backend=BackendType.EMULATED, input_sets=4)


@pytest.fixture(scope="session")
def verifier() -> Iterator[Verifier]:
    with Verifier(CONFIG) as opened:
        yield opened


@pytest.fixture(scope="session")
def naive_harness() -> Iterator[Callable[[Program], bool]]:
    """A function that says whether a naive harness, on the same backend, accepts a candidate."""
    backend = open_backend(CONFIG)

    def compile_sources(question: object) -> messages.Compiled | messages.Refused:
        assert isinstance(question, messages.CompileRequest)
        built = backend.compile(question.sources)
        return messages.Refused(built.error) if built.error else messages.Compiled(built.path)

    with Sandbox(
        (*backend.preload, "tests.adversarial.naive"),
        setup=backend.setup,
        limits=Limits(seconds=60.0, memory_mb=6144),
        readable=backend.readable,
        environment=dict(backend.environment),
    ) as sandbox:

        def accepts(candidate: Program) -> bool:
            reference = read_exercise(candidate.value("task")).task.reference
            outcome = sandbox.call(
                "tests.adversarial.naive:accepts",
                reference,
                candidate.source,
                backend.child,
                serve=serve_candidate(compile_sources),
            )
            return bool(outcome.ok and outcome.value)

        yield accepts
