"""One compilation for all who ask for the same sources at the same time: a candidate asks for what was foreseen."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from musadata.verifier.backends.protocol import Built


class SharedCompile:
    """A backend's `compile` under which whoever comes second waits for whoever came first; safe for threads."""

    def __init__(self, compile_sources: Callable[[dict[str, Any]], Built]):
        self._compile = compile_sources
        self._lock = threading.Lock()
        self._running: dict[str, Future[Built]] = {}

    def __call__(self, sources: dict[str, Any]) -> Built:
        key = json.dumps({**sources, "name": ""}, sort_keys=True, default=str)
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
