"""What a backend does not notice and the emulator does is rejected; of all else the backend judges alone."""

import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import ErrorClass, Task, VerifyStage
from musadata.sandbox import Limits, Outcome
from musadata.verifier import Verifier, verifier
from musadata.verifier.backend_choice import open_backend
from musadata.verifier.backends.protocol import Backend, Built
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.protocol.messages import Call
from musadata.verifier.trusted import candidate_session
from musadata.verifier.trusted import emulator_crosscheck as crosscheck
from musadata.verifier.trusted.emulator_crosscheck import EmulatorCrosscheck
from musadata.verifier.trusted.plan import plan_calls

CONFIG = VerifierConfig(backend=BackendType.EMULATED, seconds=10.0)
READS_TOO_FAR = ("x[i] < 0.0f ?", "x[i + 1] == 1e30f || x[i] < 0.0f ?")  # by one element


@pytest.fixture(scope="module")
def blind() -> Iterator[Verifier]:
    """A verifier whose backend checks no accesses, like a device, and is given a cross-check."""

    def open_blind(config: VerifierConfig) -> Backend:
        return dataclasses.replace(open_backend(config), name="blind", checks="", crosscheck=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifier, "open_backend", open_blind)
        opened = Verifier(CONFIG)
        opened.__enter__()
    try:
        yield opened
    finally:
        opened.__exit__()


@pytest.fixture
def faulty(relu: str) -> str:
    assert READS_TOO_FAR[0] in relu
    return relu.replace(*READS_TOO_FAR)


def test_honest_kernel_is_accepted(blind: Verifier, relu_task: Task, relu: str) -> None:
    verdict = blind.verify(relu_task, relu)
    assert verdict.accepted, verdict.findings
    assert verdict.backend == "blind"


def test_read_past_the_end_is_rejected_each_time(blind: Verifier, relu_task: Task, faulty: str) -> None:
    verdict = blind.verify(relu_task, faulty)
    assert (verdict.stage, verdict.error_class) == (VerifyStage.EXECUTE, ErrorClass.RUNTIME)
    assert {finding.rule for finding in verdict.findings} == {"device.out_of_bounds"}
    assert "0 bytes past the end" in verdict.feedback
    assert verdict.feedback.count("Seen in emulation") == 1
    assert verdict.reward == -1.0
    assert blind.verify(relu_task, faulty) == verdict


COUNTS = ("int n = dense.numel();", "static int calls = 0;\n  int n = dense.numel() - (++calls > 5000);")


def test_program_that_keeps_count_is_refused(
    blind: Verifier, relu_task: Task, relu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan_as_on_a_device(*arguments: object) -> list[Call]:
        return [dataclasses.replace(call, settled=False) for call in plan_calls(*arguments)]

    monkeypatch.setattr(candidate_session, "plan_calls", plan_as_on_a_device)
    assert COUNTS[0] in relu
    verdict = blind.verify(relu_task, relu.replace(*COUNTS))
    assert (verdict.stage, verdict.error_class) == (VerifyStage.PROFILE, ErrorClass.NOT_ALLOWED)
    assert {finding.rule for finding in verdict.findings} == {"runtime.state"}
    assert "Seen in emulation" in verdict.feedback


def test_the_emulator_compiles_ahead_and_once(relu_task: Task, relu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_emulated, compiled, begun = crosscheck.open_emulated, [], threading.Event()

    def open_counting(config: VerifierConfig) -> Backend:
        backend = open_emulated(config)

        def compile_sources(sources: CandidateSources) -> Built:
            compiled.append(sources.name)
            begun.set()
            return backend.compile(sources)

        return dataclasses.replace(backend, compile=compile_sources)

    monkeypatch.setattr(crosscheck, "open_emulated", open_counting)
    monkeypatch.setattr(
        verifier, "open_backend", lambda config: dataclasses.replace(open_backend(config), crosscheck=True)
    )
    with Verifier(CONFIG) as opened:
        opened.compile_speculatively(relu)
        assert begun.wait(30)
        assert opened.verify(relu_task, relu).accepted
    assert len(compiled) <= 2  # the second time what is there already is only looked up


def test_backend_that_asks_for_no_crosscheck_gets_none(blind: Verifier, relu_task: Task, faulty: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blind._opened, "crosscheck", None)
        assert blind.verify(relu_task, faulty).accepted


def test_emulated_backend_asks_nobody(verifier: Verifier) -> None:
    assert verifier._opened.crosscheck is None


def test_what_the_emulator_cannot_compile_is_left_to_the_device(
    blind: Verifier, relu_task: Task, faulty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = blind._opened.crosscheck
    assert second is not None
    for built in (Built(error="no such thing here", unsupported=True), Built(error="error: expected ;")):
        backend = dataclasses.replace(second._backend, compile=lambda sources, built=built: built)
        monkeypatch.setattr(second, "_backend", backend)
        assert blind.verify(relu_task, faulty).accepted


def test_what_takes_the_emulator_too_long_is_left_to_the_device(
    blind: Verifier, relu_task: Task, faulty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = faulty.replace("class ModelNew", "import time\nwhile time.process_time() < 4.0:\n    pass\n\nclass ModelNew")
    monkeypatch.setattr(crosscheck, "_LIMITS", Limits(seconds=1.0))
    assert blind.verify(relu_task, busy).accepted


@pytest.mark.parametrize("status", ["crash", "memory", "output", "error"])
def test_emulator_that_breaks_says_nothing(
    blind: Verifier, relu_task: Task, faulty: str, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    assert blind._opened.crosscheck is not None
    monkeypatch.setattr(blind._opened.crosscheck._sandbox, "call", Mock(return_value=Outcome(status)))
    assert blind.verify(relu_task, faulty).accepted


@pytest.mark.parametrize(
    ("most", "accepted"), [(37 * 53, False), (37 * 53 - 1, False), (5 * 7, False), (5 * 7 - 1, True)]
)
def test_only_small_inputs_are_run_again(
    blind: Verifier, relu_task: Task, faulty: str, monkeypatch: pytest.MonkeyPatch, most: int, accepted: bool
) -> None:
    monkeypatch.setattr(crosscheck, "_MOST_ELEMENTS", most)
    small = (dataclasses.replace(relu_task.inputs[0], shape=(5, 7)),)
    assert blind.verify(relu_task, faulty, [small]).accepted is accepted


def test_wrong_values_are_no_matter_of_the_emulator(blind: Verifier, relu_task: Task, relu: str) -> None:
    verdict = blind.verify(relu_task, relu.replace("? 0.0f : x[i]", "? 0.1f : x[i]"))
    assert verdict.error_class is ErrorClass.CORRECTNESS
    assert "emulation" not in verdict.feedback


def test_without_the_cross_check_there_is_no_verdict(
    blind: Verifier, relu_task: Task, faulty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert blind._opened.crosscheck is not None
    monkeypatch.setattr(blind._opened.crosscheck._sandbox, "call", Mock(side_effect=MusadataError("no")))
    with pytest.raises(MusadataError, match="no"):
        blind.verify(relu_task, faulty)


def test_candidate_that_is_rejected_first_is_not_run_again(
    blind: Verifier, relu_task: Task, relu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert blind._opened.crosscheck is not None
    call, busy = Mock(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(busy.wait)
        monkeypatch.setattr(blind._opened.crosscheck, "_pool", pool)
        monkeypatch.setattr(blind._opened.crosscheck._sandbox, "call", call)
        assert blind.verify(relu_task, relu.replace("return y;", "return y")).error_class is ErrorClass.COMPILE
        busy.set()
    call.assert_not_called()


def test_nothing_is_left_when_it_is_closed_while_it_runs(relu: str) -> None:
    reached, expected = threading.Event(), Future()

    def shapes() -> list[tuple[()]]:
        reached.set()
        return [()]

    with ThreadPoolExecutor(1) as pool:
        second = EmulatorCrosscheck(CONFIG, pool)
        with second.start(relu, shapes, expected, 1) as found:
            assert reached.wait(60)
            second.close()
            expected.set_exception(MusadataError("closed"))
            assert found.result() == ()
    assert second._sandbox._process is None
