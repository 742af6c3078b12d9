"""One compilation for all callers that ask for the same sources.

A candidate asks for the sources whose speculative compilation may still be running, or has just ended.
"""

import threading
from collections import OrderedDict
from concurrent.futures import Future
from pathlib import Path

from musadata.verifier.compilation.built import Built, Compile
from musadata.verifier.compilation.sources import CandidateSources

_REMEMBERED = 256


class SharedCompile:
    """A backend's `compile` under which later callers wait for the first one's result; safe for threads. They do not
    wait for other compilers, even where only some may run at a time."""

    def __init__(self, compile_sources: Compile):
        self._compile = compile_sources
        self._lock = threading.Lock()
        self._running: dict[str, Future[Built]] = {}
        self._made: OrderedDict[str, Built] = OrderedDict()

    def __call__(self, sources: CandidateSources) -> Built:
        key = sources.digest()
        with self._lock:
            made = self._made.get(key)
            if made is not None and Path(made.path).exists():
                return made
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
        built = result.result()
        if not built.error:
            with self._lock:
                self._made[key] = built
                if len(self._made) > _REMEMBERED:
                    self._made.popitem(last=False)
        return built
