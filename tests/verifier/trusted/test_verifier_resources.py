"""What a verifier opens ends with it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from musadata.config import VerifierConfig
from musadata.verifier.compilation.sources import from_load_inline
from musadata.verifier.trusted import verifier_resources
from musadata.verifier.trusted.verifier_resources import Resources


def test_the_end_waits_for_what_is_compiled_ahead(monkeypatch):
    sources = [from_load_inline(name, f"int {name}();") for name in ("a", "b")]
    monkeypatch.setattr(verifier_resources, "predict_sources", lambda source: sources)
    monkeypatch.setattr(verifier_resources, "check_native_code", lambda texts, called: ())
    started, done = threading.Event(), []

    def compile_sources(some):
        started.set()
        time.sleep(0.1)
        done.append(some)

    with ThreadPoolExecutor(1) as pool:
        backend = SimpleNamespace(name="emulated", compile=compile_sources)
        opened = Resources(VerifierConfig(), backend, None, None, None, pool)  # type: ignore[arg-type]
        opened.compile_ahead("", "")
        assert started.wait(10)
        opened.await_compilers()
        assert done == sources[:1]  # what has not begun never does


def test_what_only_the_cross_check_needs_is_compiled_after_what_the_device_waits_for(monkeypatch):
    monkeypatch.setattr(verifier_resources, "predict_sources", lambda source: [from_load_inline("a", "int a();")])
    monkeypatch.setattr(verifier_resources, "check_native_code", lambda texts, called: ())
    order, both = [], threading.Event()

    def compile_first(some):
        time.sleep(0.05)
        order.append("device")

    def compile_second(some):
        order.append("cross-check")
        both.set()

    with ThreadPoolExecutor(4) as pool:
        backend, crosscheck = (
            SimpleNamespace(name="cuda", compile=compile_first),
            SimpleNamespace(compile=compile_second),
        )
        opened = Resources(VerifierConfig(), backend, None, None, None, pool, None, crosscheck)  # type: ignore[arg-type]
        opened.compile_ahead("", "")
        assert both.wait(10)
    assert order == ["device", "cross-check"]
