"""`torch.cuda` over the emulated device: its functions without a driver.

Properties are those of a compute capability 9.0 device, because candidates choose their launch geometry from them.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import yaml

from musadata.verifier.backends.emulated import streams
from musadata.verifier.backends.emulated.runtime import Runtime

# Those of a real device, so that no candidate can tell the emulator from it.
PROPERTIES = SimpleNamespace(
    **yaml.safe_load(Path(__file__).with_name("device_properties.yaml").read_text(encoding="utf-8"))
)
_MEMORY_BYTES: int = PROPERTIES.total_memory
_operators = torch.library.Library("aten", "IMPL", "CPU")  # of a device, which PyTorch lacks for its own CPU


class _NoChange:
    """A context in which nothing changes: there is one device."""

    def __init__(self, *_: Any, **__: Any):
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> "_NoChange":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def patch_torch(runtime: Runtime) -> None:
    """Make `torch.cuda` answer for the emulated device, in this process, for good."""
    streams.use_order(runtime.order)

    def synchronize(*_: Any) -> None:
        runtime.order.await_device()
        message = runtime.sticky_error()
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
        "mem_get_info": lambda device=None: (_MEMORY_BYTES - runtime.live_bytes(), _MEMORY_BYTES),
        "memory_allocated": lambda device=None: runtime.live_bytes(),
        "max_memory_allocated": lambda device=None: runtime.peak_bytes(),
        "memory_reserved": lambda device=None: runtime.live_bytes(),
        "max_memory_reserved": lambda device=None: runtime.peak_bytes(),
        "reset_peak_memory_stats": lambda device=None: runtime.reset_peak(),
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "set_stream": streams.set_stream,
        "stream": streams.StreamContext,
        "device": _NoChange,
        "device_of": _NoChange,
        "Stream": streams.Stream,
        "ExternalStream": streams.external_stream,
        "Event": streams.Event,
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
    _operators.impl("record_stream", lambda tensor, stream: None)  # the same from C++
    torch.cuda.default_generators = (torch.default_generator,)
    torch._C._cuda_getDeviceCount = lambda: 1
    torch._C._cuda_sleep = lambda cycles: None
    torch.version.cuda = torch.version.cuda or "13.0"
    torch.backends.cudnn.enabled = False


def patch_cpp_extension() -> None:
    """Keep `torch.utils.cpp_extension` from looking for a CUDA toolkit when a candidate imports it."""
    import torch.utils.cpp_extension as cpp_extension

    cpp_extension.CUDA_HOME = cpp_extension.CUDA_HOME or "/usr/local/cuda"
