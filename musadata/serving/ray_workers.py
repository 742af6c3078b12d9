"""Workers as Ray actors: one for each node, or for each device, of whatever nodes the cluster has by now."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
import ray.autoscaler.sdk
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from musadata.config import DEVICE_BACKENDS, BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import Verdict
from musadata.serving.dispatcher import Dispatcher, WorkerLost
from musadata.serving.judge_actor import JudgeActor
from musadata.verifier.submission import Submission

_LOOK_SECONDS = 2.0  # between two looks for nodes
_PAUSES = (0.5, 5.0, 600.0)  # before a lost worker is started anew; the last from the third without a verdict on
MOST_AT_ONCE = 16  # submissions per worker: more do not keep a device busier


@dataclass
class RayWorker:
    """An actor as the dispatcher sees it."""

    name: str
    at_once: int
    actor: Any
    judged: int = 0

    async def open(self, config: VerifierConfig) -> str:
        return str(await self._result(self.actor.open.remote(config)))

    async def judge(self, attempt: str, submission: Submission) -> Verdict:
        verdict: Verdict = await self._result(self.actor.judge.remote(attempt, submission))
        self.judged += 1
        return verdict

    def cancel(self, attempt: str) -> None:
        self.actor.cancel.options(concurrency_group="control").remote(attempt)

    async def _result(self, reference: Awaitable[Any]) -> Any:
        try:
            return await reference
        except RayTaskError as error:  # raised by the actor's code
            raise error.cause from None
        except RayError as error:
            raise WorkerLost(_first_line(error)) from error


@dataclass(frozen=True)
class Seat:
    """Where a worker may be: a node, and which of its devices (0 where it needs none)."""

    node: str
    host: str
    number: int
    cpus: float
    gpus: int

    @property
    def name(self) -> str:
        return f"{self.host}/{self.node[:8]}/{self.number}"


class RayWorkers:
    """Keeps a worker in each seat of the cluster in service.

    `states` has what each of them does, for people.
    """

    def __init__(
        self, config: VerifierConfig, dispatcher: Dispatcher, at_once: int = 0, most: int = 0, actor: type = JudgeActor
    ):
        self._config, self._dispatcher = config, dispatcher
        self._at_once, self._most, self._asked = at_once, most, 0
        remote: Any = ray.remote
        self._actor = remote(concurrency_groups={"control": 2})(actor)
        self.states: dict[str, str] = {}
        self._kept: dict[Seat, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                seats = set(_seats(await asyncio.to_thread(ray.nodes), self._config))
                for seat in self._kept.keys() - seats:
                    self._kept.pop(seat).cancel()
                for seat in seats - self._kept.keys():
                    self._kept[seat] = asyncio.create_task(self._keep(seat))
                self._ask_for_nodes()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for task in self._kept.values():
                task.cancel()
            await asyncio.gather(*self._kept.values(), return_exceptions=True)

    async def _keep(self, seat: Seat) -> None:
        """One worker after the other in a seat."""
        losses = 0
        try:
            while True:
                worker = self._start(seat)
                try:
                    self._dispatcher.admit(await worker.open(self._config))
                    self._tell(seat, "in service")
                    await self._dispatcher.serve(worker)
                except (WorkerLost, MusadataError) as error:
                    why = _first_line(error)
                finally:
                    with suppress(RayError):
                        ray.kill(worker.actor)
                losses = 1 if worker.judged else losses + 1
                pause = _PAUSES[min(losses, len(_PAUSES)) - 1]
                self._tell(seat, f"out of service for {pause:g} s: {why}")
                await asyncio.sleep(pause)
        finally:
            self.states.pop(seat.name, None)

    def _start(self, seat: Seat) -> RayWorker:
        self._tell(seat, "starts")
        at_once = self._slots(seat)
        actor = self._actor.options(
            num_cpus=min(seat.cpus, at_once),
            num_gpus=seat.gpus,
            max_concurrency=at_once,
            scheduling_strategy=NodeAffinitySchedulingStrategy(seat.node, soft=False),
        ).remote()
        return RayWorker(seat.name, at_once, actor)

    def _slots(self, seat: Seat) -> int:
        return self._at_once or max(1, min(int(seat.cpus), MOST_AT_ONCE))

    def _tell(self, seat: Seat, state: str) -> None:
        self.states[seat.name] = state
        self._dispatcher.say(f"worker {seat.name} {state}")

    def _ask_for_nodes(self) -> None:
        """Ask the cluster's autoscaler for as many workers as there is work for, up to `most`."""
        if not self._most or not self._kept:
            return
        seat = next(iter(self._kept))
        at_once = self._slots(seat)
        wanted = min(self._most, -(-(self._dispatcher.waiting + self._dispatcher.running) // at_once))
        if wanted != self._asked:
            self._asked = wanted
            bundle = {"CPU": min(seat.cpus, at_once)} | ({"GPU": 1} if seat.gpus else {})
            ray.autoscaler.sdk.request_resources(bundles=[bundle] * wanted)


def _seats(nodes: list[dict[str, Any]], config: VerifierConfig) -> Iterator[Seat]:
    kind, alive = config.backend, [node for node in nodes if node["Alive"]]
    on_devices = kind in DEVICE_BACKENDS or (
        kind is BackendType.AUTO and any("GPU" in node["Resources"] for node in alive)
    )
    for node in alive:
        has = node["Resources"]
        cpus, devices = has.get("CPU", 0.0), int(has.get("GPU", 0))
        count = devices if on_devices else 1
        for number in range(count if cpus >= 1 else 0):
            yield Seat(node["NodeID"], node["NodeManagerHostname"], number, cpus // count or 1, int(on_devices))


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300]
