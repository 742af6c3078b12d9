"""One compilation for all callers that ask for the same sources at the same time.

A candidate asks for the sources whose speculative compilation may still be running.
"""

import threading
from concurrent.futures import Future

from musadata.verifier.compilation.built import Built, Compile
from musadata.verifier.compilation.sources import CandidateSources


class SharedCompile:
    """A backend's `compile` under which later callers wait for the first one's result; safe for threads."""

    def __init__(self, compile_sources: Compile):
        self._compile = compile_sources
        self._lock = threading.Lock()
        self._running: dict[str, Future[Built]] = {}

    def __call__(self, sources: CandidateSources) -> Built:
        key = sources.digest()
        with self._lock:
            first = key not in self._running
            result = self._running.setdefault(key, Future())
        if not first:
            return result.result()
        try:
            result.set_result(self._compile(sources))
        except BaseException as error:
            result.set_exception(error)
        finally:
            with self._lock:
                del self._running[key]
        return result.result()
