"""Sources that several ask for at the same time are compiled once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from musadata.verifier.compilation.built import Built
from musadata.verifier.compilation.shared_compile import SharedCompile
from musadata.verifier.compilation.sources import CandidateSources


def test_second_waits_for_the_first_and_gets_its_result():
    started, go, calls = threading.Event(), threading.Event(), []

    def compile_sources(sources):
        calls.append(sources)
        started.set()
        assert go.wait(60)
        return Built(path=f"/{len(calls)}")

    shared = SharedCompile(compile_sources)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shared, CandidateSources("one", cuda=("text",)))
        assert started.wait(60)
        second = pool.submit(shared, CandidateSources("two", cuda=("text",)))
        go.set()
        assert first.result() == second.result() == Built(path="/1")
    assert len(calls) == 1
    assert shared(CandidateSources("one", cuda=("text",))) == Built(path="/2")


def test_what_is_made_is_not_asked_for_again_while_it_is_there(tmp_path):
    library, calls = tmp_path / "candidate.so", []

    def compile_sources(sources):
        calls.append(sources)
        library.touch()
        return Built(path=str(library)) if "right" in sources.cuda[0] else Built(error="wrong")

    shared = SharedCompile(compile_sources)
    right, wrong = CandidateSources("one", cuda=("right",)), CandidateSources("one", cuda=("wrong",))
    assert shared(right) == shared(right) == Built(path=str(library))
    assert len(calls) == 1
    library.unlink()  # the cache has been emptied meanwhile
    shared(right)
    shared(wrong), shared(wrong)
    assert len(calls) == 4


def test_failure_reaches_all_and_is_not_kept():
    def compile_sources(sources):
        raise OSError("no space")

    shared = SharedCompile(compile_sources)
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            shared(CandidateSources("one", cuda=("text",)))
