"""A process in which candidates run, one forked child each: what the verifier's sandbox does, without its walls.

Reads one JSON request a line, writes one JSON answer a line. Requests hold the candidate's Python source, the order of
threads and so on; answers hold what happened, in plain values.
"""

import json
import os
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))

import torch

from musadata.verifier.backends.emulated import emulated_hook as hook
from musadata.verifier.backends.emulated.artifacts import compile_sources
from musadata.verifier.compilation.sources import CandidateSources


def run(request: dict[str, Any]) -> dict[str, Any]:
    def compile_here(sources: CandidateSources) -> str:
        return str(compile_sources(sources, lines=request.get("sanitize", False)))

    hook.activate(compile_here, fault_fd=request["fault_fd"])
    options = {
        key: request[key] for key in ("order", "seed", "poison", "null_kernels", "check", "settled") if key in request
    }
    if request.get("sanitize"):
        options["check"] = "full"
    hook.configure(**options)
    answer: dict[str, Any] = {"error": "", "error_type": "", "close": None, "value": None}
    try:
        namespace: dict[str, Any] = {"__name__": "candidate"}
        exec(compile(request["source"], "candidate.py", "exec"), namespace)
        if "answer" in namespace:
            answer["value"] = namespace["answer"]()
        else:
            answer["close"] = compare(namespace, answer)
    except Exception as error:
        answer["error"], answer["error_type"] = str(error), type(error).__name__
        answer["traceback"] = traceback.format_exc()
    answer.setdefault("records", asdict(hook.take_records()))
    return answer


def compare(namespace: dict[str, Any], answer: dict[str, Any]) -> bool:
    torch.manual_seed(0)
    arguments = namespace["get_init_inputs"]()
    reference, candidate = namespace["Model"](*arguments).cuda(), namespace["ModelNew"](*arguments).cuda()
    candidate.load_state_dict(reference.state_dict())
    inputs = [value.cuda() for value in namespace["get_inputs"]()]
    with torch.no_grad():
        expected = reference(*inputs)
        hook.take_records()
        got = candidate(*inputs)
    answer["records"] = asdict(hook.take_records())
    expected, got = ([value] if torch.is_tensor(value) else list(value) for value in (expected, got))
    tolerance = 1e-2 if got[0].dtype == torch.half else 1e-3
    return len(expected) == len(got) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a.float(), b.float(), tolerance, tolerance)
        for a, b in zip(expected, got, strict=True)
    )


def serve() -> None:
    torch.set_num_threads(1)
    hook.prepare()
    print("ready", flush=True)
    for line in sys.stdin:
        results, results_in = os.pipe()
        faults, faults_in = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(results)
            answer = run({**json.loads(line), "fault_fd": faults_in})
            os.write(results_in, json.dumps(answer).encode())
            os._exit(0)
        os.close(results_in)
        os.close(faults_in)
        with os.fdopen(results, "rb") as stream:
            text = stream.read()
        with os.fdopen(faults, "rb") as stream:
            last_message = stream.read().decode()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer = json.loads(text) if text else {}
        print(json.dumps({**answer, "status": status, "last_message": last_message}), flush=True)


if __name__ == "__main__":
    serve()
