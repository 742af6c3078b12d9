"""Faults of the language and the interface: names, types, bindings, returns."""

from __future__ import annotations

import re

from musadata.teacher.compiler.faults.catalogue import fault, in_kernel, in_source
from musadata.teacher.compiler.faults.fault_context import FaultContext, KernelSite, first


@fault(
    "undeclared_name",
    cause="the kernel used a name that is not declared there",
    mend="it uses the name of its parameter",
    compiles=False,
)
def undeclared_name(context: FaultContext) -> str | None:
    names = {r"(?<=[<>=] )total(?=[;)])": "num_elements", r"\bblockIdx\.x\b": "block_idx.x"}
    return context.in_some_kernel(lambda text: first(context.replace_one(text, old, new) for old, new in names.items()))


@fault(
    "misspelt_intrinsic",
    cause="a function of CUDA was misspelt",
    mend="it is called by its right name",
    compiles=False,
)
def misspelt_intrinsic(context: FaultContext) -> str | None:
    right = [name for name in _MISSPELT if re.search(rf"\b{name}\(", context.source)]
    chosen = context.pick(right)
    return None if chosen is None else re.sub(rf"\b{chosen}\(", f"{_MISSPELT[chosen]}(", context.source, count=1)


_MISSPELT = {
    "__shfl_xor_sync": "__shfl_xor_synch",
    "__syncthreads": "__sync_threads",
    "expf": "exp_f",
    "fmaxf": "fmax_f",
    "rsqrtf": "rsqrt_f",
    "sqrtf": "sqrt_f",
    "tanhf": "tanh_f",
    "erff": "erf_f",
    "logf": "log_f",
    "fabsf": "fabs_f",
}


fault(
    "missing_semicolon",
    cause="a statement had no semicolon at its end",
    mend="the statement ends with one",
    compiles=False,
)(in_kernel(r"(const int \w+ = [^;\n]+);\n", r"\1\n"))


@fault(
    "wrong_signature",
    cause="the declaration in cpp_sources had other parameters than the definition, so the function was never defined",
    mend="declaration and definition have the same parameters",
    compiles=False,
)
def wrong_signature(context: FaultContext) -> str | None:
    start = context.source.find("cpp_source = ")
    last = context.source.find(");", start)
    if start < 0 or last < 0:
        return None
    return f"{context.source[:last]}, int64_t num_elements{context.source[last:]}"


fault(
    "wrong_binding",
    cause="the function that Python asked for was not among those that the extension defines",
    mend="`functions` names the C++ function as it is defined",
    compiles=False,
)(in_source(r'functions=\["(\w+)_cuda"\]', r'functions=["\1_forward"]'))


fault(
    "wrong_pointer_type",
    cause="a float tensor's data was asked for as double, which the kernel does not take",
    mend="the pointer has the tensor's element type",
    compiles=False,
)(in_source(r"\.data_ptr<float>\(\)", ".data_ptr<double>()"))


fault(
    "wrong_dtype_check",
    cause="the check asked for another dtype than the reference's inputs have",
    mend="the check asks for the dtype that the inputs have",
)(in_source(r"(CHECK_INPUT\(\w+, torch::)kFloat32", r"\1kFloat64"))


@fault(
    "missing_return",
    cause="forward computed the result and did not return it",
    mend="forward returns what the extension computes",
)
def missing_return(context: FaultContext) -> str | None:
    head, mark, tail = context.source.rpartition("        return ")
    return f"{head}        {tail}" if mark and "extension." in tail else None


fault(
    "missing_argument",
    cause="forward called the extension with one argument too few",
    mend="every tensor that the function takes is passed",
)(in_source(r"(extension\.\w+\((?:\w|\.|, )+), [\w.\[\]]+\)", r"\1)"))


@fault(
    "swapped_arguments",
    cause="two pointers were passed to the kernel in the wrong order",
    mend="the arguments are passed in the order of the kernel's parameters",
)
def swapped_arguments(context: FaultContext) -> str | None:
    def swapped(site: KernelSite) -> str | None:
        buffers = list({buffer.name: buffer for buffer in site.emitted.kernel.inputs}.values())
        if len(buffers) < 2 or buffers[0].shape == buffers[1].shape:
            return None
        one, two = (f"{buffer.name}.data_ptr<float>()" for buffer in buffers[:2])
        gaps = (", ", ",\n            ", ",\n        ")
        return first(context.in_launch(site, f"{one}{gap}{two}", f"{two}{gap}{one}") for gap in gaps)

    return first(map(swapped, context.sites()))


@fault(
    "missing_contiguous",
    cause="the kernel indexes a contiguous tensor, and the input was a view with other strides",
    mend="the input is made contiguous before its pointer is taken",
)
def missing_contiguous(context: FaultContext) -> str | None:
    arguments = [item["name"] for item in context.candidate.graph.arguments if item["rank"] > 1]
    lines = [f"    {name} = {name}.contiguous();\n" for name in arguments]
    line = context.pick([line for line in lines if line in context.source])
    return None if line is None else context.source.replace(line, "", 1)
