"""Inside the sandbox: a model's parameters and buffers. Reference and candidate construct them after the same seed,
then they are randomised in the reference and copied into the candidate."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from musadata.records import InputSpec
from musadata.verifier.protocol.tensors import pack

if TYPE_CHECKING:
    import torch

_FEW, _SMALL = 4096, 0.05
_RAISED = 3.5  # times the value that it has
_PART = 1 << 24  # elements of a tensor that are changed at a time


def construct_seeded(make: "Callable[[], torch.nn.Module]", seed: int) -> "tuple[torch.nn.Module, dict[str, str]]":
    """A model constructed after every generator was seeded, and digests of its parameters and buffers by name.

    A tensor with NaN has no digest: its start means nothing.
    """
    import torch

    from musadata.tasks.reference_loading import set_seed

    with unfilled_memory_known():
        set_seed(seed)
        model = make()
    tensors = {name: tensor.detach().cpu() for name, tensor in tensors_of(model).items()}
    return model, {
        name: sha256(pack({"": tensor})).hexdigest()
        for name, tensor in tensors.items()
        if not bool(torch.isnan(tensor).any())
    }


@contextmanager
def unfilled_memory_known() -> Iterator[None]:
    """Memory that a constructor does not fill holds NaN and the largest integers, so that it never equals a filled one
    by chance."""
    import torch

    before = torch.get_deterministic_debug_mode()
    torch._C._set_deterministic_algorithms(True, warn_only=True)  # its public name imports all of torch.compile, 8 s
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(before > 0, warn_only=before == 1)


def randomise(model: "torch.nn.Module", seed: int, buffers: bool = True) -> None:
    """Change every finite float parameter, and buffer if `buffers`, in place: the constructor must have had copies of
    its arguments, since a model may keep a tensor that it is given.

    An all-zero tensor gets values in [-0.5, 0.5). The values of others are multiplied by factors in [0.5, 1.5), which
    keeps signs and zeros: variances stay positive and masks stay masks. What is small and alike, such as the scale of
    a branch or a decay, is 1 before: else nobody would see who leaves it out. A device draws in single precision and
    changes a part at a time: some models have weights of gigabytes.
    """
    import torch

    from musadata.tracing.inputs import draw
    from musadata.verifier.sandboxed.device_inputs import draw_on

    done: set[int] = set()
    named = [*model.named_parameters(), *(model.named_buffers() if buffers else ())]
    with torch.no_grad():
        for name, tensor in named:
            if tensor.data_ptr() in done or not tensor.dtype.is_floating_point or tensor.numel() == 0:
                continue
            done.add(tensor.data_ptr())
            number = int(sha256(f"{seed}/{name}".encode()).hexdigest()[:15], 16)
            dtype = "float32" if tensor.is_cuda else "float64"
            spec = InputSpec(name, "uniform", dtype, tuple(tensor.shape), -0.5, 0.5)
            noise = draw_on("cuda", [spec], number)[0] if tensor.is_cuda else draw([spec], number)[0]
            # Without asking: a device that others use, too, takes milliseconds for each answer.
            is_set, is_finite = tensor.any(), torch.isfinite(tensor).all()
            if tensor.numel() <= _FEW:
                is_small = ((tensor == tensor.reshape(-1)[0]) & (tensor.abs() < _SMALL)).all()
                tensor.copy_(torch.where(is_small, tensor.sign(), tensor))
            for part, change in zip(_parts(tensor), _parts(noise), strict=True):
                fresh = torch.where(is_set, part.double() * (1.0 + change), change)
                part.copy_(torch.where(is_finite, fresh.to(part.dtype), part))


def _is_lone(tensor: "torch.Tensor") -> bool:
    """Whether it is one number, or few that are alike."""
    return tensor.numel() <= _FEW and (tensor.numel() == 1 or bool((tensor == tensor.reshape(-1)[0]).all()))


def find_lone(model: "torch.nn.Module") -> list[str]:
    """The floats of a model that are one number, or few that are alike and neither 0 nor 1, by name: scales,
    temperatures, slopes. `model` as it was constructed."""
    return [
        name
        for name, tensor in tensors_of(model).items()
        if tensor.dtype.is_floating_point
        and tensor.numel()
        and _is_lone(tensor)
        and (tensor.numel() == 1 or float(tensor.reshape(-1)[0]) not in (0.0, 1.0))
    ]


def turn(model: "torch.nn.Module", lone: list[str], sign: float) -> None:
    """Make the numbers that `find_lone` has found large, beyond what clamps expect, and change their sign for -1."""
    import torch

    with torch.no_grad():
        for name in lone:
            tensor = tensors_of(model)[name]
            tensor.mul_(sign * _RAISED)


def _parts(tensor: "torch.Tensor") -> "tuple[torch.Tensor, ...]":
    """Views of some rows at a time."""
    return tensor.split(max(1, _PART * len(tensor) // tensor.numel())) if tensor.dim() else (tensor,)


def tensors_of(model: "torch.nn.Module") -> "dict[str, torch.Tensor]":
    """All parameters and buffers by name, those that are not persistent included; tied ones under each name."""
    found: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        found[name] = parameter
    for name, buffer in model.named_buffers(remove_duplicate=False):
        found[name] = buffer
    return found


def copy_state(model: "torch.nn.Module", state: "dict[str, torch.Tensor]", parameters: set[str]) -> list[str]:
    """Copy values by name into a candidate; returns sentences about what does not fit.

    A buffer may be missing in the candidate: if it matters, the results will be wrong.
    """
    import torch

    own = tensors_of(model)
    own_parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    problems = [f"ModelNew has no parameter {name}." for name in sorted(parameters - set(own))]
    problems += [
        f"ModelNew has the parameter {name}, which Model lacks." for name in sorted(own_parameters - set(state))
    ]
    with torch.no_grad():
        for name in sorted(set(own) & set(state)):
            target, value = own[name], state[name]
            if target.shape != value.shape:
                shapes = f"{tuple(target.shape)} instead of {tuple(value.shape)}"
                problems.append(f"ModelNew's {name} has the shape {shapes}.")
            elif target.dtype != value.dtype:
                problems.append(f"ModelNew's {name} is {target.dtype} instead of {value.dtype}.")
            else:
                target.copy_(value)
    return problems
