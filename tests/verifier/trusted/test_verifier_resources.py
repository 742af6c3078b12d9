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
    monkeypatch.setattr(verifier_resources, "check_native_code", lambda texts, strict, called: ())
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
