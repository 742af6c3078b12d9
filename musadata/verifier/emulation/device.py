"""`torch.cuda` over the emulated device: what Python code asks of it, answered without a driver.

Everything is finished when a call returns, so streams and events only keep their promises; properties are those of a
compute capability 9.0 device, because candidates choose their launch geometry from them.
"""

import time
from types import SimpleNamespace
from typing import Any

import torch

_MEMORY_BYTES = 8 << 30

PROPERTIES = SimpleNamespace(
    name="musadata emulated device",
    major=9,
    minor=0,
    total_memory=_MEMORY_BYTES,
    multi_processor_count=132,
    warp_size=32,
    max_threads_per_block=1024,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=48 * 1024,
    shared_memory_per_block_optin=227 * 1024,
    shared_memory_per_multiprocessor=228 * 1024,
    L2_cache_size=50 << 20,
    is_integrated=0,
    is_multi_gpu_board=0,
    gcnArchName="",
)


class Event:
    """Stands for `torch.cuda.Event`; measures the host's time, which says nothing about a GPU."""

    def __init__(self, enable_timing: bool = False, *_: Any, **__: Any):
        self.cuda_event = 0
        self.device = torch.device("cuda", 0)
        self._seconds = 0.0

    def record(self, stream: Any = None) -> None:
        self._seconds = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds."""
        return (end._seconds - self._seconds) * 1e3


class Stream:
    """Stands for `torch.cuda.Stream`: all of them are the one in which everything is already done."""

    def __init__(self, *_: Any, **__: Any):
        self.cuda_stream = 0
        self.stream_id = 0
        self.device = torch.device("cuda", 0)
        self.device_index = 0
        self.device_type = 1
        self.priority = 0

    def synchronize(self) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class _NoChange:
    """A context in which nothing changes: there is one device and one stream."""

    def __init__(self, *_: Any, **__: Any):
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> "_NoChange":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def patch_torch(peak_bytes: Any, live_bytes: Any, reset_peak: Any, last_error: Any) -> None:
    """Make `torch.cuda` answer for the emulated device, in this process, for good.

    `last_error()` gives a sentence about a fault of an earlier kernel, or ""; `synchronize` raises it as CUDA does.
    """
    stream = Stream()

    def synchronize(*_: Any) -> None:
        message = last_error()
        if message:
            raise torch.AcceleratorError(message) if hasattr(torch, "AcceleratorError") else RuntimeError(message)

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": synchronize,
        "get_device_name": lambda device=None: PROPERTIES.name,
        "get_device_properties": lambda device=None: PROPERTIES,
        "get_device_capability": lambda device=None: (PROPERTIES.major, PROPERTIES.minor),
        "get_arch_list": lambda: ["sm_90"],
        "is_bf16_supported": lambda *_, **__: True,
        "mem_get_info": lambda device=None: (_MEMORY_BYTES - live_bytes(), _MEMORY_BYTES),
        "memory_allocated": lambda device=None: live_bytes(),
        "max_memory_allocated": lambda device=None: peak_bytes(),
        "memory_reserved": lambda device=None: live_bytes(),
        "max_memory_reserved": lambda device=None: peak_bytes(),
        "reset_peak_memory_stats": lambda device=None: reset_peak(),
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "set_stream": lambda stream: None,
        "stream": lambda stream: _NoChange(),
        "device": _NoChange,
        "device_of": _NoChange,
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "manual_seed": torch.default_generator.manual_seed,
        "manual_seed_all": torch.default_generator.manual_seed,
        "seed": torch.default_generator.seed,
        "seed_all": torch.default_generator.seed,
        "initial_seed": torch.default_generator.initial_seed,
        "get_rng_state": lambda device="cuda": torch.default_generator.get_state(),
        "set_rng_state": lambda state, device="cuda": torch.default_generator.set_state(state),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    torch.Tensor.record_stream = lambda tensor, stream: None  # type: ignore[method-assign, assignment, misc]
    torch.cuda.default_generators = (torch.default_generator,)
    torch._C._cuda_getDeviceCount = lambda: 1
    torch.version.cuda = torch.version.cuda or "13.0"
    torch.backends.cudnn.enabled = False


def patch_cpp_extension() -> None:
    """Keep `torch.utils.cpp_extension` from looking for a CUDA toolkit when a candidate imports it."""
    import torch.utils.cpp_extension as cpp_extension

    cpp_extension.CUDA_HOME = cpp_extension.CUDA_HOME or "/usr/local/cuda"
