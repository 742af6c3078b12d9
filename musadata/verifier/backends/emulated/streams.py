"""`torch.cuda`'s streams and events over the emulated device.

All work is finished when a call returns. Which work waits for which is recorded all the same: on a device a result is
right only if its readers wait for it.
"""

import ctypes
import time
from typing import Any

import torch


class Order:
    """The runtime's record of which work waits for which; streams and events are handles, 0 the default stream."""

    def __init__(self, runtime: ctypes.CDLL):
        handle = ctypes.c_void_p
        self._call = {
            name: ctypes.CFUNCTYPE(returns, *takes)((f"musadata_{name}", runtime))
            for name, returns, *takes in (
                ("open_stream", handle, ctypes.c_int),
                ("open_event", handle),
                ("record_event", None, handle, handle),
                ("wait_event", None, handle, handle),
                ("await_stream", None, handle),
                ("await_event", None, handle),
                ("await_device", None),
                ("current_stream", handle),
                ("set_current_stream", None, handle),
                ("begin_call", None),
                ("end_call", None),
            )
        }

    def __getattr__(self, name: str) -> Any:
        call = self._call[name]
        return lambda *arguments: call(*arguments) or 0


_order: Order
_recorded: dict[int, float] = {}  # seconds, by event; not in the events, whose attributes belong to the program


def use_order(order: Order) -> None:
    """Make all streams and events of this process report to `order`."""
    global _order
    _order = order


class Event:
    """Stands for `torch.cuda.Event`; measures the host's time, which says nothing about a GPU."""

    def __init__(self, enable_timing: bool = False, *_: Any, **__: Any):
        self.cuda_event = _order.open_event()
        self.device = torch.device("cuda", 0)
        _recorded[self.cuda_event] = 0.0

    def record(self, stream: "Stream | None" = None) -> None:
        _recorded[self.cuda_event] = time.perf_counter()
        _order.record_event(self.cuda_event, _handle(stream))

    def wait(self, stream: "Stream | None" = None) -> None:
        _order.wait_event(_handle(stream), self.cuda_event)

    def query(self) -> bool:
        self.synchronize()
        return True

    def synchronize(self) -> None:
        _order.await_event(self.cuda_event)

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds."""
        return (_recorded[end.cuda_event] - _recorded[self.cuda_event]) * 1e3


class Stream:
    """Stands for `torch.cuda.Stream`, which the default stream does not wait for."""

    def __init__(self, *_: Any, stream_ptr: int | None = None, **__: Any):
        self.cuda_stream = _order.open_stream(0) if stream_ptr is None else stream_ptr
        self.stream_id = self.cuda_stream
        self.device = torch.device("cuda", 0)
        self.device_index = 0
        self.device_type = 1
        self.priority = 0

    def synchronize(self) -> None:
        _order.await_stream(self.cuda_stream)

    def wait_stream(self, stream: "Stream") -> None:
        self.wait_event(stream.record_event())

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        self.synchronize()
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __enter__(self) -> "Stream":
        self._previous = _order.current_stream()
        set_stream(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _order.set_current_stream(self._previous)


class StreamContext:
    """Stands for what `torch.cuda.stream` gives: a stream is the current one for a while; None changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream
        self._previous: list[int] = []

    def __enter__(self) -> None:
        self._previous.append(_order.current_stream())
        if self.stream is not None:
            set_stream(self.stream)

    def __exit__(self, *_: Any) -> None:
        _order.set_current_stream(self._previous.pop())


def external_stream(stream_ptr: int, *_: Any, **__: Any) -> Stream:
    """Stands for `torch.cuda.ExternalStream`."""
    return Stream(stream_ptr=int(stream_ptr))


def current_stream(device: Any = None) -> Stream:
    return Stream(stream_ptr=_order.current_stream())


def default_stream(device: Any = None) -> Stream:
    return Stream(stream_ptr=0)


def set_stream(stream: Stream) -> None:
    _order.set_current_stream(stream.cuda_stream)


def _handle(stream: Stream | None) -> int:
    return _order.current_stream() if stream is None else stream.cuda_stream
