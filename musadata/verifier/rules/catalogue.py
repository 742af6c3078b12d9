"""Every rule of the verifier: why a candidate is rejected or not judged, and what a model is told about it.

A new rule is one entry here, and a check that returns `ENTRY.finding(...)`. The constant is named after the id.
"""

from dataclasses import dataclass
from functools import partial

from musadata.records import ErrorClass, Finding, VerifyStage

RULES: dict[str, "Rule"] = {}  # by id; an unknown id is a KeyError

_STAGES = {
    "extract": VerifyStage.EXTRACT,
    "legality": VerifyStage.LEGALITY,
    "compile": VerifyStage.COMPILE,
    "interface": VerifyStage.EXECUTE,
    "execute": VerifyStage.EXECUTE,
    "device": VerifyStage.EXECUTE,
    "correctness": VerifyStage.COMPARE,
    "task": VerifyStage.COMPARE,
    "runtime": VerifyStage.PROFILE,
    "timing": VerifyStage.TIME,
    "reference": VerifyStage.EXECUTE,
    "row": VerifyStage.EXECUTE,
    "infra": VerifyStage.EXECUTE,
}  # by family


@dataclass(frozen=True)
class Rule:
    """One reason in a verdict.

    Attributes:
        error_class: of a verdict whose first reason this is.
        id: "family.name", as it stands in rows. The family says in which stage the rule is checked.
        message: what a model is told; the check fills in each {}. Empty if `worded_by` is given.
        worded_by: who words the message, where that is not this catalogue.
        certain: a cheat that is reported as such even where the results are wrong, too.
        missed_by_devices: a mistake that a device does not notice, so that the emulator's cross-check reports it.
    """

    error_class: ErrorClass
    id: str
    message: str = ""
    worded_by: str = ""
    certain: bool = False
    missed_by_devices: bool = False

    def __post_init__(self) -> None:
        if self.id in RULES:
            raise ValueError(f"two rules have the id {self.id}")
        RULES[self.id] = self

    @property
    def stage(self) -> VerifyStage:
        return _STAGES[self.id.split(".")[0]]

    def finding(
        self, *parts: object, line: int = 0, operator: str = "", index: str = "", expected: str = "", got: str = ""
    ) -> Finding:
        """What the catalogue says of this rule, with its parts filled in."""
        return self.worded(self.message.format(*parts), line, operator, index, expected, got)

    def worded(
        self, message: str, line: int = 0, operator: str = "", index: str = "", expected: str = "", got: str = ""
    ) -> Finding:
        """The same in other words."""
        return Finding(self.id, message, line, operator, index, expected, got)


def device_rule(kind: str) -> Rule:
    """The rule for a kind of fault that the candidate's process reports; it may be forged."""
    return RULES.get(f"device.{kind}", DEVICE_FAULT)


_cheating = partial(Rule, ErrorClass.CHEATING)
_correctness = partial(Rule, ErrorClass.CORRECTNESS)
_runtime = partial(Rule, ErrorClass.RUNTIME)
_compile = partial(Rule, ErrorClass.COMPILE)
_infra = partial(Rule, ErrorClass.INFRA)

# A program is found in the reply (extract.py).
_EXTRACT = "extract.py, which says where the program is cut off or wrong"
EXTRACT_UNREADABLE = _compile("extract.unreadable", worded_by=_EXTRACT)
EXTRACT_TRUNCATED = _compile("extract.truncated", worded_by=_EXTRACT)
EXTRACT_SYNTAX = _compile("extract.syntax", "The program is not valid Python: {} (line {} of the reply).")
EXTRACT_NO_CODE = _compile(
    "extract.no_code", "The reply holds no code block and is not a Python program with ModelNew."
)
EXTRACT_NO_MODEL = _compile("extract.no_model", "No code block defines a class ModelNew.")

# Static rules for Python (rules/python/).
LEGALITY_NO_FORWARD = _cheating("legality.no_forward", "ModelNew defines no forward.")
LEGALITY_EMPTY = _cheating("legality.empty", "ModelNew.forward computes nothing.")
LEGALITY_INHERITS = _cheating("legality.inherits", "ModelNew {} the forward of its base class.")
LEGALITY_FALLBACK = _cheating("legality.fallback", "{} is swallowed: a fallback.")
LEGALITY_COMPUTE = _cheating("legality.compute", "{} computes with PyTorch.")
LEGALITY_MODULE_CALL = _cheating("legality.module_call", "The forward calls {}, a PyTorch layer.")
LEGALITY_CLOCK = _cheating("legality.clock", "The forward asks {} for the time, which no result depends on.")
LEGALITY_BLOB = _cheating("legality.blob", "A string holds what looks like embedded binary data.")
LEGALITY_IMPORT = _cheating("legality.import", "Importing {} is not allowed here.")
LEGALITY_ESCAPE = _cheating("legality.escape", "{} is not allowed: the work must be done by your kernels.")
LEGALITY_DYNAMIC = _cheating(
    "legality.dynamic", worded_by="escapes.py and modules.py, by what hides the code that runs"
)
LEGALITY_INTROSPECTION = _cheating("legality.introspection", "{} reaches into Python's internals.")
LEGALITY_PATCH = _cheating("legality.patch", "{} changes what other code uses.")

# Static rules for C++ and CUDA (rules/native/); the first three for Python as well.
LEGALITY_NO_KERNEL = _cheating("legality.no_kernel", "The program compiles no {}.")
LEGALITY_SYSTEM = _cheating("legality.system", worded_by="native_code.py and modules.py, by the way out of the sandbox")
LEGALITY_HOST = _cheating("legality.host", "{} moves data to the host; the work must be done by kernels.")
LEGALITY_LIBRARY = _cheating("legality.library", "{} belongs to {}; the kernels must be your own.")
LEGALITY_ATEN = _cheating("legality.aten", "{} computes with PyTorch.")
LEGALITY_GRAPH = _cheating("legality.graph", "{}() captures or replays a CUDA graph.")
LEGALITY_PYTHON_ESCAPE = _cheating("legality.python_escape", "{} calls back into Python.")

COMPILE_ERROR = _compile("compile.error", worded_by="the compiler, or linked_names.py")
COMPILE_UNSUPPORTED = _infra("compile.unsupported", "This backend cannot judge the candidate: {}")

# The candidate's process: its interface, its end, and the faults of its kernels.
INTERFACE_STATE = _correctness("interface.state", worded_by="model_state.py, by the parameter that does not match")
EXECUTE_UNSUPPORTED = _infra("execute.unsupported", "This backend cannot judge the candidate: {}")
EXECUTE_EXCEPTION = _runtime("execute.exception", worded_by="the exception")
EXECUTE_TIMEOUT = _runtime("execute.timeout", "It takes too long: a loop that does not end, or far too much work.")
EXECUTE_MEMORY = _runtime("execute.memory", "It takes more memory than it may.")
EXECUTE_OUTPUT = _runtime("execute.output", "It prints or writes more than it may.")
EXECUTE_CRASH = _runtime("execute.crash", "Its process was {}.")
EXECUTE_ERROR = _runtime("execute.error", worded_by="the exception of the verifier's own code beside it")

_CHECKER = "the emulator, or compute-sanitizer on a device"
_fault = partial(_runtime, worded_by=_CHECKER)
_silent_fault = partial(_fault, missed_by_devices=True)
DEVICE_FAULT = _fault("device.fault")
DEVICE_LAUNCH = _runtime(
    "device.launch", "kernel {} cannot be launched ({}): grid {}, block {}, {} bytes of dynamic shared memory."
)
DEVICE_OUT_OF_BOUNDS = _silent_fault("device.out_of_bounds")
DEVICE_OUT_OF_BOUNDS_WRITE = _silent_fault("device.out_of_bounds_write")
DEVICE_ILLEGAL_ACCESS = _silent_fault("device.illegal_access")
DEVICE_MISALIGNED = _silent_fault("device.misaligned")
DEVICE_LOCAL_OVERFLOW = _silent_fault("device.local_overflow")
DEVICE_SHARED_OVERFLOW = _silent_fault("device.shared_overflow")
DEVICE_UNINITIALISED_SHARED = _silent_fault("device.uninitialised_shared")
DEVICE_RACE_IN_BLOCK = _silent_fault("device.race_in_block")
DEVICE_RACE_BETWEEN_BLOCKS = _silent_fault("device.race_between_blocks")
DEVICE_UNORDERED_STREAMS = _silent_fault("device.unordered_streams")
DEVICE_BARRIER_DIVERGENCE = _silent_fault("device.barrier_divergence")
DEVICE_WARP_DIVERGENCE = _silent_fault("device.warp_divergence")
DEVICE_DIVISION_BY_ZERO = _silent_fault("device.division_by_zero")
DEVICE_HOST_MEMORY = _fault("device.host_memory")
DEVICE_HOST_ACCESS = _fault("device.host_access")
DEVICE_HOST_CRASH = _fault("device.host_crash")
DEVICE_DEADLOCK = _fault("device.deadlock")
DEVICE_TRAP = _fault("device.trap")
DEVICE_ASSERTION = _fault("device.assertion")
DEVICE_EXCEPTION = _fault("device.exception")
DEVICE_LAUNCH_BOUNDS = _fault("device.launch_bounds")
DEVICE_SHARED_MEMORY = _fault("device.shared_memory")

# Results (compare.py, judge.py).
_values = partial(_correctness, worded_by="compare.py, by the first wrong element and the pattern of all")
CORRECTNESS_STRUCTURE = _correctness("correctness.structure", "The forward returns {} instead of {}.")
CORRECTNESS_SHAPE = _correctness("correctness.shape", "{} has shape {} instead of {}.")
CORRECTNESS_DTYPE = _correctness("correctness.dtype", "{} is {} instead of {}.")
CORRECTNESS_VALUES = _values("correctness.values")
CORRECTNESS_NONFINITE = _values("correctness.nonfinite")
CORRECTNESS_SWALLOWED = _correctness("correctness.swallowed", "Infinities in the input disappear. {}")
CORRECTNESS_MISSING = _correctness("correctness.missing", "There is no result for some inputs.")
CORRECTNESS_OUTPUT = _correctness(
    "correctness.output", worded_by="execute.py, by what an output is instead of a tensor"
)
CORRECTNESS_INPUT_CHANGED = _correctness("correctness.input_changed", "The forward changes its inputs in place.")
CORRECTNESS_OUTPUT_REUSED = _correctness(
    "correctness.output_reused", "A later call changes an output that was returned before."
)
CORRECTNESS_UNSTABLE = _correctness(
    "correctness.unstable",
    "The same inputs give another result when called again or when threads run in another order: {}",
)
CORRECTNESS_STRIDES = _correctness(
    "correctness.strides",
    "The result is wrong when an input is not contiguous (call .contiguous(), or check and raise): {}",
)

# Legality at run time (runtime_legality.py).
RUNTIME_TAMPERED = _cheating("runtime.tampered", "The candidate replaced {}.", certain=True)
RUNTIME_THREADS = _cheating("runtime.threads", "The candidate starts threads of its own.")
RUNTIME_STATE = _cheating(
    "runtime.state",
    "The forward changes {} whenever it is called again: a result must depend on the inputs alone.",
    missed_by_devices=True,
)
RUNTIME_OPERATOR = _cheating(
    "runtime.operator", "The forward computes with PyTorch's {} instead of a kernel of its own.", certain=True
)
RUNTIME_HOST = _cheating(
    "runtime.host", "The forward moves {} values to the host; the work must be done by kernels.", certain=True
)
RUNTIME_NO_LAUNCH = _cheating("runtime.no_launch", "The forward launches no kernel of its own.", certain=True)
RUNTIME_DECOY = _cheating(
    "runtime.decoy", "The result is the same when its kernels do nothing: they are not what computes it."
)

# Times (timing.py, candidate_session.py).
_ended = partial(_runtime, message="When called many times its process ends: {}.")
TIMING_TIMEOUT = _ended("timing.timeout")
TIMING_MEMORY = _ended("timing.memory")
TIMING_OUTPUT = _ended("timing.output")
TIMING_CRASH = _ended("timing.crash")
TIMING_ERROR = _ended("timing.error")
TIMING_EXCEPTION = _runtime("timing.exception", "It fails when called many times: {}")
TIMING_UNSTABLE = _correctness("timing.unstable", "The result is wrong after it has been called many times: {}")
TIMING_SHARE = _cheating("timing.share", "Only {:.0%} of the device's time is spent in its own kernels.")
TIMING_HIDDEN_WORK = _cheating(
    "timing.hidden_work", "Each call takes {:.2f} ms that its events do not show: work outside of what is timed."
)
TIMING_IMPOSSIBLE = _cheating(
    "timing.impossible",
    "It claims {:.4f} ms; the device needs {:.4f} ms only to read what the result depends on.",
)

# No verdict on the candidate.
TASK_NOT_DISCRIMINATING = _infra("task.not_discriminating", "Zeros or a constant would pass every test of this task.")
REFERENCE_FAILS = _infra("reference.fails", worded_by="the exception of the reference")
ROW_INCOMPLETE = _infra("row.incomplete", worded_by="batch.py, by the column that is missing or cannot be read")
