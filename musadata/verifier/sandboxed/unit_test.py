"""Inside the sandbox: run a unit test of a task on programs, its own reference and candidates.

Test, reference and program share this process, so what it says counts as a fact about the test and never as a verdict.
"""

import copy
import dataclasses
import importlib
import inspect
import json
import linecache
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.rows import plain, restore
from musadata.tasks.reference_loading import load_reference
from musadata.tracing.inputs import draw
from musadata.verifier.backends.device_records import Records
from musadata.verifier.protocol.message_encoding import read_claims
from musadata.verifier.protocol.pytree import flatten
from musadata.verifier.protocol.unit_tests import CRASH, IMPORT, Failure, UnitTestRun
from musadata.verifier.sandboxed.execute import compile_outside, load_candidate, say_error
from musadata.verifier.sandboxed.model_state import construct_seeded, copy_state, randomise, tensors_of

FILE = "<unit test>"
_SEED = 0
_ORDERS = ("forward", "reverse")  # of threads and blocks: each test function has the other one than that before it
_MOST_CHARACTERS = 300
_MOST_BYTES = 1 << 15  # of what a program's process says: a pipe takes it at once
_SECONDS = 20.0  # CPU time of one program

Program = Callable[..., Any]


def run_unit_test(
    test: str, reference: str, inputs: Sequence[dict[str, Any]], programs: Sequence[str], right: int, backend_name: str
) -> list[dict[str, Any]]:
    """Run every `test_…` function of a unit test on some programs, with the fixtures `reference` and `candidate`.

    Both are callables that take and return CPU tensors; their parameters and buffers are equal and random. A program ""
    stands for the reference itself. `inputs` are specs on which the reference is known to run. Ends after the first of
    the first `right` programs that fails. Each program has a process of its own, forked from this one.

    Returns a `UnitTestRun` for each program, as plain values.
    """
    source = load_reference(reference)
    arguments = source.get_init_inputs()
    expected = _build_stable(
        lambda: source.Model(*copy.deepcopy(arguments)), [restore(InputSpec, spec) for spec in inputs]
    )
    state = _State(source.Model, arguments, expected)
    _spare_an_import()
    found: list[UnitTestRun] = []
    for number, program in enumerate(programs):
        found.append(_in_child(partial(_test_program, test, program, state, backend_name)))
        if number < right and not found[-1].ok:
            break
    return list(map(plain, found))


def _spare_an_import() -> None:
    """`torch.testing.assert_close` asks whether its operands are distributed tensors, and imports their module for it,
    which takes 1.1 s of CPU time in every process. There are none here."""
    vars(importlib.import_module("torch.testing._comparison"))["_HAS_DTENSOR"] = False


@dataclass(frozen=True)
class _State:
    """The reference's class, the constructor's arguments, and a model of it."""

    kind: type[torch.nn.Module]
    arguments: Any
    expected: torch.nn.Module


def _in_child(work: Callable[[], UnitTestRun]) -> UnitTestRun:
    """What `work` returns in a forked process, which its program may end."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.setitimer(signal.ITIMER_PROF, _SECONDS)  # CPU time; its signal ends the process
            os.write(writing, json.dumps(plain(work())).encode()[:_MOST_BYTES])
        finally:
            os._exit(0)
    os.close(writing)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.set_blocking(reading, False)  # what the program has started may hold the other end
    try:
        return read_claims(UnitTestRun, json.loads(os.read(reading, _MOST_BYTES)))
    except (ValueError, BlockingIOError):
        return UnitTestRun(failed=(Failure(CRASH, f"the process ended with {code}"),))
    finally:
        os.close(reading)


def _test_program(test: str, program: str, state: _State, backend_name: str) -> UnitTestRun:
    backend: ModuleType | None = None
    kind, device = state.kind, "cpu"
    try:
        if program:
            backend = importlib.import_module(backend_name)
            backend.activate(compile_outside, fault_fd=os.open("faults", os.O_CREAT | os.O_WRONLY, 0o600))
            kind, device = load_candidate(program).ModelNew, backend.DEVICE
        fixtures = _make_fixtures(state, kind, device)
        functions = _load_test(test)
        unknown = [name for function in functions for name in _arguments(function) if name not in fixtures]
        if unknown or not functions:
            raise ValueError(f"unknown fixture {unknown[0]}" if unknown else "it has no function test_…")
    except BaseException as error:
        return UnitTestRun(failed=(Failure(IMPORT, say_error(error)),))
    whys = {
        function.__name__: _run(function, fixtures, backend, _ORDERS[number % 2])
        for number, function in enumerate(functions)
    }
    failed = tuple(Failure(name, why) for name, why in whys.items() if why)
    return UnitTestRun(tuple(name for name, why in whys.items() if not why), failed)


def _make_fixtures(state: _State, kind: type[torch.nn.Module], device: str) -> dict[str, Program]:
    """The reference on the CPU, and a model of the class `kind` with the same state on a device."""
    model, _ = construct_seeded(lambda: kind(*copy.deepcopy(state.arguments)), _SEED)
    tensors = {name: tensor.detach() for name, tensor in tensors_of(state.expected).items()}
    problems = copy_state(model, tensors, {name for name, _ in state.expected.named_parameters(remove_duplicate=False)})
    if problems:
        raise AssertionError(problems[0])
    return {"reference": _program(state.expected, "cpu"), "candidate": _program(model.to(device), device)}


def _build_stable(make: Callable[[], torch.nn.Module], specs: Sequence[InputSpec]) -> torch.nn.Module:
    """A model with as much random state as gives finite results: some buffers hold indices or constants."""
    for buffers in (True, False):
        model, _ = construct_seeded(make, _SEED)
        randomise(model, _SEED, buffers)
        if _gives_finite(model, specs):
            return model
    return construct_seeded(make, _SEED)[0]


def _gives_finite(model: torch.nn.Module, specs: Sequence[InputSpec]) -> bool:
    try:
        leaves = flatten(_program(model, "cpu")(*draw(specs, _SEED)))[1]
    except Exception:
        return False
    return all(bool(torch.isfinite(leaf).any()) for leaf in leaves if leaf.numel())


def _program(model: torch.nn.Module, device: str) -> Program:
    """A model as a fixture: it gets copies of its inputs, and gives its results, on the CPU."""

    def program(*inputs: Any) -> Any:
        with torch.no_grad():
            result = model(*(_copy(value, device) for value in inputs))
        return _map(lambda leaf: leaf.cpu(), result)

    return program


def _copy(value: Any, device: str) -> Any:
    """A copy on a device, with the strides that a tensor has here."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device).copy_(value)


def _map(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """The result of a forward with each tensor replaced; dataclasses become dicts."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _map(function, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_map(function, item) for item in value)
    return value


def _load_test(test: str) -> list[Callable[..., object]]:
    """Its test functions, in the order in which they stand in the text."""
    module = ModuleType("musadata_unit_test")
    linecache.cache[FILE] = (len(test), None, test.splitlines(keepends=True), FILE)
    exec(compile(test, FILE, "exec"), module.__dict__)
    return [value for name, value in vars(module).items() if name.startswith("test_") and inspect.isfunction(value)]


def _arguments(function: Callable[..., object]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _run(function: Callable[..., object], fixtures: dict[str, Program], backend: ModuleType | None, order: str) -> str:
    """Why a test function fails: what it raises, or what the program's kernels did wrong meanwhile; "" if it passes."""
    torch.manual_seed(_SEED)
    if backend:
        backend.configure(order=order, **({"check": "brief"} if hasattr(backend, "CHECKS") else {}))
        backend.take_records()
    try:
        if backend:
            backend.begin_call()
        function(**{name: fixtures[name] for name in _arguments(function)})
        if backend:
            backend.end_call()
    except BaseException as error:
        return say_error(error)
    return _faults(backend.take_records()) if backend else ""


def _faults(records: Records) -> str:
    """What kernels did wrong, "" for nothing."""
    found = [f"{fault.kind} in {fault.kernel}: {fault.message}" for fault in (*records.faults, *records.reports)]
    found += [f"the launch of {launch.name} is refused" for launch in records.kernels if launch.error]
    return found[0][:_MOST_CHARACTERS] if found else ""
