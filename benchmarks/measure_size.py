"""What a device promises at the sizes that kernels are judged at: inputs, one large verdict, and bad input.

    python -m benchmarks.measure_size --output build/measure_size.json

Inputs have the same bits on the CPU and the device. A softmax over 4096 × 393216 is judged by the command, from source.
A reference that needs more memory than the device has, a candidate that hangs where inputs are large, and one that is
far too slow are each judged beside an honest candidate, which must not be disturbed; then the device's memory must be
as it was. Each part is reported as it comes: one that fails does not keep the others from being measured.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measuring import Row, report, run_watched
from musadata.config import BackendType, VerifierConfig
from musadata.records import ErrorClass, InputSpec
from musadata.verifier import Verifier

GOAL_SECONDS, GOAL_GB, LEFT_MB = 20.0, 8.0, 64
_KINDS = (
    InputSpec("a", "normal", "float32", (1 << 20,)),
    InputSpec("b", "normal", "bfloat16", (999, 77)),
    InputSpec("c", "uniform", "float32", (1 << 20,), -0.3, 1.7),
    InputSpec("d", "uniform", "float16", (4099,), 0.0, 1.0),
    InputSpec("e", "normal", "complex64", (3001,)),
    InputSpec("f", "integers", "int64", (1 << 20,), 3.0, 1e12),
    InputSpec("g", "permutation", "int64", (100_003,), 5.0),
    InputSpec("h", "choice", "float32", (5000,), literal="(-1.0, 0.5, 2.0)"),
    InputSpec("i", "bool", "bool", (1 << 20,)),
    InputSpec("j", "offsets", "int64", (900,), 0.0, 50000.0),
    InputSpec("k", "normal", "float64", (33_333,)),
    InputSpec("l", "uniform", "float64", (33_333,), 2.0, 3.0),
    InputSpec("m", "segments", "int32", (900,), 0.0, 5000.0),
    InputSpec("n", "normal", "float32", (600, 600), literal="symmetric"),
    InputSpec("o", "normal", "float32", (3000,), 4.5, 5.5),
)
_REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
"""
_CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ float combine(float value, float* partial, bool largest) {
  partial[threadIdx.x] = value;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      float other = partial[threadIdx.x + stride];
      partial[threadIdx.x] = largest ? fmaxf(partial[threadIdx.x], other) : partial[threadIdx.x] + other;
    }
    __syncthreads();
  }
  float result = partial[0];
  __syncthreads();
  return result;
}

__global__ void softmax_rows(const float* x, float* y, long long columns) {
  __shared__ float partial[512];
  const float* row = x + blockIdx.x * columns;
  float most = -INFINITY, sum = 0.0f;
  for (long long i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
  most = combine(most, partial, true);
  for (long long i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - most);
  sum = combine(sum, partial, false);
  for (long long i = threadIdx.x; i < columns; i += blockDim.x) y[blockIdx.x * columns + i] = expf(row[i] - most) / sum;
}

torch::Tensor softmax(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  softmax_rows<<<x.size(0), 512>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""
extension = load_inline(
    name="softmax_rows",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=source,
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softmax(x)
'''
_LOOP = "  for (long long i = threadIdx.x; i < columns; i += blockDim.x) most"
# The compiler may take a loop without effects for finite, so that it reads memory which may change.
_HANGS = "  while (columns > 100000 && *(const volatile float*)row >= 0.0f) {}\n" + _LOOP
_CRAWLS = "  if (columns > 100000) for (long long t = 0; t < 200000000; ++t) __nanosleep(100);\n" + _LOOP
_WRONG = ("y[blockIdx.x * columns + i] =", "if (blockIdx.x < 2000 || i < columns - 1) y[blockIdx.x * columns + i] =")


def check_bits(backend: str) -> list[Row]:
    """Whether inputs have the same bits everywhere, and how fast the device draws them."""
    import torch

    from musadata.verifier.sandboxed import device_inputs
    from musadata.verifier.sandboxed.device_inputs import draw_on, redraw

    device = "cuda" if backend == "cuda" else "cpu"
    here, there = (draw_on(place, _KINDS, 7) for place in ("cpu", device))
    same = sum(torch.equal(one, other.cpu()) for one, other in zip(here, there, strict=True))
    rows = [("inputs of the same bits on CPU and device", "all kinds", f"{same} of {len(_KINDS)}", same == len(_KINDS))]
    if device == "cuda":
        found = device_inputs._build_kernel() is not None
        rows.append(("they are drawn by the kernel", "yes", "yes" if found else "no", found))
        for kind in ("uniform", "normal"):
            spec = InputSpec("x", kind, "float32", (4096, 393216), 0.0, 1.0 if kind == "uniform" else 0.0)
            values = draw_on(device, [spec], 1)
            torch.cuda.synchronize()
            start = time.perf_counter()
            redraw([spec], 2, values)
            torch.cuda.synchronize()
            rows.append((f"6.4 GB of {kind} values drawn", "", f"{(time.perf_counter() - start) * 1e3:.1f} ms", True))
            del values
    return rows


def judge_large(backend: str, shape: tuple[int, int], work: Path) -> list[Row]:
    """One verdict by the command: seconds, host memory."""
    reference, candidate = work / "reference.py", work / "candidate.py"
    reference.write_text(_REFERENCE.replace("ROWS", str(shape[0])).replace("COLUMNS", str(shape[1])))
    candidate.write_text(_CANDIDATE + f"# {time.time_ns()}\n")
    command = [sys.executable, "-m", "musadata", "verify", "--reference", str(reference), "--candidate", str(candidate)]
    run = run_watched([*command, "--backend", backend, "--json"], kill_after=90)
    said = " ".join(run.output[-300:].split())
    accepted = run.code == 0
    name = f"softmax over {shape[0]} × {shape[1]}"
    return [
        (f"{name}, one verdict", f"<= {GOAL_SECONDS:g} s", f"{run.seconds:.1f} s", run.seconds <= GOAL_SECONDS),
        (f"{name}, its outcome", "accepted", "accepted" if accepted else f"code {run.code}: {said}", accepted),
        (f"{name}, host memory", f"<= {GOAL_GB:g} GB", f"{run.peak_gb:.2f} GB", run.peak_gb <= GOAL_GB),
    ]


def judge_bad_input(backend: str, shape: tuple[int, int]) -> tuple[list[Row], dict[str, Any]]:
    """What becomes of references and candidates that need too much, each beside an honest candidate."""
    small = _REFERENCE.replace("ROWS", "16").replace("COLUMNS", "700")
    large = (InputSpec("x", "uniform", "float32", shape, 0.0, 1.0),)
    huge = (InputSpec("x", "uniform", "float32", (1 << 18, 1 << 18), 0.0, 1.0),)
    details: dict[str, Any] = {}
    with Verifier(VerifierConfig(backend=BackendType(backend))) as verifier, ThreadPoolExecutor(2) as pool:
        task = replace(verifier.read_task(small), measure=large)

        def judge(name: str, source: str, judged: Any) -> Any:
            start = time.monotonic()
            verdict = verifier.verify(judged, source)
            details[name] = {
                "seconds": time.monotonic() - start,
                "accepted": verdict.accepted,
                "speedup": verdict.speedup,
                "timings": {
                    one.name: [one.median_ms, one.low_ms, one.high_ms, one.repetitions] for one in verdict.timings
                },
                "findings": [f"{finding.rule}: {finding.message}"[:300] for finding in verdict.findings],
            }
            return verdict

        def beside(name: str, source: str, judged: Any) -> tuple[Any, bool]:
            others = pool.submit(judge, f"honest beside {name}", _CANDIDATE, task)
            return judge(name, source, judged), others.result().accepted

        judge("honest", _CANDIDATE, task)
        window = getattr(getattr(verifier._resources, "baselines", None), "_window_kind", "none")
        lines: list[Row] = [("outputs reach the comparison through", "device", window, window == "device")]
        for name, source, judged, kept in (
            ("wrong at the end of the last rows", _CANDIDATE.replace(*_WRONG), task, _is_wrong),
            ("a reference of 275 GB", _CANDIDATE, replace(task, measure=huge), _is_undecided),
            ("a candidate that hangs", _CANDIDATE.replace(_LOOP, _HANGS), task, _is_ended),
            ("a candidate that crawls", _CANDIDATE.replace(_LOOP, _CRAWLS), task, _is_ended),
        ):
            verdict, undisturbed = beside(name, source, judged)
            said = "; ".join(details[name]["findings"])[:120] or f"accepted, speedup {verdict.speedup}"
            lines.append((name, "told", f"{details[name]['seconds']:.1f} s: {said}", kept(verdict)))
            lines.append((f"an honest one beside {name}", "accepted", str(undisturbed), undisturbed))
    return lines, details


def _is_wrong(verdict: Any) -> bool:
    return verdict.error_class is ErrorClass.CORRECTNESS


def _is_undecided(verdict: Any) -> bool:
    return verdict.error_class is ErrorClass.INFRA and verdict.findings[0].rule == "measure.unknown"


def _is_ended(verdict: Any) -> bool:
    return verdict.error_class is ErrorClass.RUNTIME and verdict.findings[0].rule == "measure.slow"


def _used_mb() -> int:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    try:
        return int(subprocess.run(query, capture_output=True, text=True, timeout=60, check=False).stdout.split()[0])
    except (OSError, IndexError, ValueError):
        return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    is_real = arguments.backend == "cuda"
    shape = (4096, 393216) if is_real else (64, 5000)
    before = _used_mb()
    rows: list[Row] = []
    details: dict[str, Any] = {}

    def attempt(name: str, measure: Callable[[], list[Row]]) -> None:
        start = time.monotonic()
        try:
            found = measure()
        except Exception:
            found = [(name, "measured", traceback.format_exc(limit=-3)[-600:], False)]
        rows.extend(found)
        print(f"{name}: {time.monotonic() - start:.1f} s", *found, sep="\n  ", flush=True)

    def bad_input() -> list[Row]:
        found, details["verdicts"] = judge_bad_input(arguments.backend, (2048, 200_000) if is_real else (64, 5000))
        return found

    with tempfile.TemporaryDirectory(prefix="musadata-measure-") as folder:
        attempt("bits", lambda: _run_apart(arguments.backend))
        attempt("bad input", bad_input)
        attempt("large", lambda: judge_large(arguments.backend, shape, Path(folder)))
    if is_real:
        time.sleep(2.0)
        left = _used_mb() - before
        rows.append(("device memory left behind", f"<= {LEFT_MB} MB", f"{left} MB", left <= LEFT_MB))
    report("the measure size", rows, details, arguments.output)
    return 0 if all(row[3] for row in rows) else 1


def _run_apart(backend: str) -> list[Row]:
    """`check_bits` in a process of its own, whose context ends with it."""
    code = f"import json; from benchmarks.measure_size import check_bits; print(json.dumps(check_bits({backend!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-500:])
    return [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]


if __name__ == "__main__":
    raise SystemExit(main())
