"""What judging needs and is opened once: processes, threads, the device's lock, and the emulator's cross-check."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from musadata.config import VerifierConfig
from musadata.sandbox import Limits, Sandbox
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.built import Built, Compile
from musadata.verifier.compilation.speculative_compile import predict_sources
from musadata.verifier.protocol.entry_points import COUNT_ACCESSES, RUN_UNIT_TEST, TIME_REFERENCE, module_of
from musadata.verifier.rules.catalogue import RULES
from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.rules.native.native_code import check_native_code
from musadata.verifier.trusted.baseline_pool import BaselinePool
from musadata.verifier.trusted.emulator_crosscheck import EmulatorCrosscheck
from musadata.verifier.trusted.expectation import ReferenceRunner

_MOST_THREADS = 64
# A driver makes some contexts at a time faster than one by one, but delays all of them if they are many. Contexts a
# second on an H200: 3.3 one by one, 7.8 by four, 10 by eight.
_CONTEXTS_AT_ONCE = 8


@dataclass
class Resources:
    """Open as long as a verifier is. `baselines`: None where times mean nothing; `crosscheck`: None where the backend
    notices what the emulator does."""

    config: VerifierConfig
    backend: Backend
    candidates: Sandbox
    reference_sandbox: Sandbox
    references: ReferenceRunner
    pool: ThreadPoolExecutor
    baselines: BaselinePool | None = None
    crosscheck: EmulatorCrosscheck | None = None
    contexts: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_CONTEXTS_AT_ONCE))
    _speculated: set[tuple[str, str]] = field(default_factory=set)
    _compiling: set[Future[Built]] = field(default_factory=set)

    def compile_ahead(self, source: str, ported: str) -> None:
        """Start to compile what a candidate will most likely ask for. `ported` is the candidate as it will run. What
        the emulator needs comes second: only the end of the verdict waits for it, and the device for the rest."""
        first = self._start_compiling(ported, self.backend.name, self.backend.compile)
        if self.crosscheck is None:
            return
        second = partial(self._start_compiling, source, "emulator_crosscheck", self.crosscheck.compile)
        if not first:
            second()
            return

        def go_on(done: Future[Built]) -> None:
            if not done.cancelled():
                with suppress(RuntimeError):  # the pool has been closed meanwhile
                    second()

        first[-1].add_done_callback(go_on)

    def _start_compiling(self, source: str, compiler: str, compile_sources: Compile) -> list[Future[Built]]:
        """What was begun now."""
        called, begun = named_in(source), list[Future[Built]]()
        for sources in predict_sources(source):
            key = compiler, sources.digest()
            found = check_native_code(sources.texts(), called)
            if key not in self._speculated and not any(RULES[one.rule].unsafe for one in found):
                self._speculated.add(key)
                compiling = self.pool.submit(compile_sources, sources)
                begun.append(compiling)
                self._compiling.add(compiling)
                compiling.add_done_callback(self._compiling.discard)
        return begun

    def await_compilers(self) -> None:
        """Wait for what is compiled ahead of nobody any more: a process that ends now would leave it half-built."""
        for compiling in [one for one in list(self._compiling) if not one.cancel()]:
            compiling.exception()


@contextmanager
def open_resources(
    config: VerifierConfig, backend: Backend, reference_modules: Sequence[str], shared: Sandbox | None
) -> Iterator[Resources]:
    """Start all processes without waiting for them. References run in `shared`, unless the backend has a device: there
    they need it too."""
    limits = Limits(seconds=config.seconds, memory_mb=0 if backend.devices else config.memory_mb)
    open_sandbox = partial(
        Sandbox,
        limits=limits,
        readable=backend.readable,
        devices=backend.devices,
        environment=dict(backend.environment),
    )
    candidates = open_sandbox(
        (*backend.preload, module_of(RUN_UNIT_TEST), module_of(COUNT_ACCESSES)), setup=backend.setup
    )
    measuring = [module_of(TIME_REFERENCE)] if backend.times else []
    own = [candidates]
    if backend.devices or shared is None:
        shared = open_sandbox((*reference_modules, *measuring))
        own.append(shared)
    pool = ThreadPoolExecutor(_MOST_THREADS)
    opened = Resources(config, backend, candidates, shared, ReferenceRunner(shared, limits), pool)
    with ExitStack() as stack:
        stack.callback(opened.await_compilers)
        for sandbox in own:
            sandbox.launch()
            stack.push(sandbox)
        stack.callback(partial(pool.shutdown, wait=False, cancel_futures=True))
        if backend.times:
            opened.baselines = BaselinePool(config, backend, shared)
            stack.callback(opened.baselines.close)
        if backend.crosscheck:
            opened.crosscheck = EmulatorCrosscheck(config, pool)
            stack.callback(opened.crosscheck.close)
        yield opened
