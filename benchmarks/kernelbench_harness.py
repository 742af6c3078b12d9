"""Runs KernelBench's own harness on a folder of candidates, as its `scripts/eval_from_generations.py` does.

    PYTHONPATH=HARNESS/src python -m benchmarks.kernelbench_harness --work WORK --cores 16

HARNESS is a checkout of ScalingIntelligence/KernelBench. WORK holds `NAME.reference.py` and `NAME.candidate.py`. First
all candidates are compiled into its cache by a pool over all cores (`kernelbench.compile.batch_compile`), then each is
evaluated in a fresh process (`kernelbench.eval.eval_kernel_against_ref`, 5 correctness and 100 timing runs) for
`--seconds-each` at the most: the script itself cannot be used, for it also imports what rents machines. With
`--at-once` several are evaluated side by side, for correctness alone, on all devices in turn. Writes
`WORK/harness.json` after each step.
"""

import argparse
import hashlib
import json
import multiprocessing
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

_STAND_INS = {
    "dotenv": "def load_dotenv(*_, **__): return False\n",
    "openai": "class OpenAI: ...\n",
    "litellm": "def completion(*_, **__): raise RuntimeError('not here')\n",
    "pydantic": """
import copy


class BaseModel:
    def __init__(self, **values):
        for kind in reversed(type(self).__mro__):
            for name in getattr(kind, "__annotations__", {}):
                setattr(self, name, copy.deepcopy(getattr(kind, name, None)))
        vars(self).update(values)
""",
}


def write_stand_ins(folder: Path) -> None:
    """Modules that the harness imports for other purposes than evaluating, where they are not installed."""
    import importlib.util

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _STAND_INS.items():
        if importlib.util.find_spec(name) is None:
            (folder / f"{name}.py").write_text(text)


def evaluate(
    reference: str, candidate: str, build: str, timed: bool = True, tensor_float: bool = True, device: int = 0
) -> dict[str, Any]:
    """What the harness says of a candidate; call it in a process of its own. Convolutions of its reference run in
    TensorFloat-32, as PyTorch's default is, unless `tensor_float` is false. `device`: its number, modulo how many there
    are."""
    import torch
    from kernelbench.eval import eval_kernel_against_ref

    torch.backends.cudnn.allow_tf32 = tensor_float
    result = eval_kernel_against_ref(
        original_model_src=reference,
        custom_model_src=candidate,
        measure_performance=timed,
        timing_method="cuda_event",
        num_correct_trials=5,
        num_perf_trials=100,
        build_dir=build,
        device=torch.device(f"cuda:{device % torch.cuda.device_count()}"),
        backend="cuda",
        precision=torch.float32,
    )
    if result is None:
        return {"accepted": False, "metadata": "no result"}
    return {
        "accepted": bool(result.compiled and result.correctness),
        "runtime_ms": result.runtime,
        "reference_ms": result.ref_runtime,
        # A traceback names this machine's folders.
        "metadata": {k: str(value)[:300] for k, value in result.metadata.items() if not k.endswith("traceback")},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Compile all, then evaluate one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--arch", default="Hopper")
    parser.add_argument("--seconds-each", type=float, default=180.0, help="an evaluation that takes longer is ended")
    parser.add_argument("--at-once", type=int, default=1, help="evaluations side by side, not timed if more than one")
    parser.add_argument("--full-precision", action="store_true", help="no convolution in TensorFloat-32")
    arguments = parser.parse_args(argv)
    from kernelbench.utils import set_gpu_arch

    set_gpu_arch([arguments.arch])  # as its script does: without it every evaluation compiles once more
    work: Path = arguments.work.resolve()
    multiprocessing.set_start_method("spawn")
    names = [path.name.removesuffix(".candidate.py") for path in work.glob("*.candidate.py")]
    names.sort(key=lambda name: hashlib.sha256(name.encode()).digest())  # a run that is cut off is an even draw
    report: dict[str, Any] = {"cores": arguments.cores, "compile_seconds": None, "evaluations": {}}
    if arguments.at_once == 1:  # else each compiles its own, side by side
        report["compile_seconds"] = _compile(work, names, arguments.cores, arguments.arch)
    _note(work, report)
    numbered = list(enumerate(names))
    with ThreadPoolExecutor(arguments.at_once) as threads:
        options = {"timed": arguments.at_once == 1, "tensor_float": not arguments.full_precision}
        each = partial(_evaluate_alone, work, arguments.seconds_each, options)
        for done in as_completed([threads.submit(each, one) for one in numbered]):
            name, result = done.result()
            report["evaluations"][name] = result
            _note(work, report)
    return 0


def _evaluate_alone(
    work: Path, seconds: float, options: dict[str, bool], numbered: tuple[int, str]
) -> tuple[str, dict[str, Any]]:
    """A candidate's name, and what a fresh process says of it."""
    index, name = numbered
    reference, candidate = [(work / f"{name}.{kind}.py").read_text() for kind in ("reference", "candidate")]
    start = time.perf_counter()
    with multiprocessing.Pool(1) as pool:
        build = str(work / "cache" / "run" / str(index) / "0")
        try:
            chosen = {**options, "device": 0 if options["timed"] else index}
            result = pool.apply_async(evaluate, (reference, candidate, build), chosen).get(seconds)
        except multiprocessing.TimeoutError:
            result = {"accepted": False, "timed_out": True, "metadata": "takes too long"}
        except Exception as error:
            result = {"accepted": False, "metadata": f"{type(error).__name__}: {error}"[:300]}
    return name, {**result, "seconds": time.perf_counter() - start}


def _compile(work: Path, names: Sequence[str], cores: int, arch: str) -> float:
    from kernelbench.compile import batch_compile

    runs = work / "runs" / "run"
    runs.mkdir(parents=True)
    for index, name in enumerate(names):
        shutil.copyfile(work / f"{name}.candidate.py", runs / f"level_1_problem_{index}_sample_0_kernel.py")
    config = {
        "verbose": False,
        "gpu_arch": [arch],
        "kernel_eval_build_dir": str(work / "cache"),
        "run_name": "run",
        "runs_dir": str(work / "runs"),
        "level": 1,
        "num_cpu_workers": cores,
        "timeout": 300,
    }
    start = time.perf_counter()
    batch_compile([(index, 0) for index in range(len(names))], config)
    return time.perf_counter() - start


def _note(work: Path, report: dict[str, Any]) -> None:
    (work / "harness.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
