import threading
from concurrent.futures import Future
from unittest.mock import Mock

from musadata.config import VerifierConfig
from musadata.verifier.trial import Compilations, Trial


def open_trial(contexts: threading.Semaphore) -> Trial:
    return Trial(VerifierConfig(), Compilations(Mock(), True), Future(), 1, None, None, None, contexts)


def test_context_is_free_again_once_it_has_been_made() -> None:
    contexts = threading.Semaphore(1)
    trial = open_trial(contexts)
    trial.serve({"context": "wanted"})
    assert not contexts.acquire(blocking=False)
    trial.serve({"context": "made"})
    assert contexts.acquire(blocking=False)


def test_candidate_that_asks_for_a_context_again_keeps_nobody_waiting() -> None:
    contexts = threading.Semaphore(1)
    trial = open_trial(contexts)
    for said in ("wanted", "made", "wanted"):
        trial.serve({"context": said})
    assert contexts.acquire(blocking=False)


def test_context_of_a_process_that_ends_is_free_again() -> None:
    contexts = threading.Semaphore(1)
    trial = open_trial(contexts)
    trial.serve({"context": "wanted"})
    trial.leave()
    trial.leave()
    assert contexts.acquire(blocking=False) and not contexts.acquire(blocking=False)
