"""How the threads that share a reduction combine their partial results."""

from musadata.teacher.compiler.emission.cpp import C_TYPES, REDUCTIONS, number_text
from musadata.teacher.compiler.lowering.fusion import Kernel


def identity(kind: str, dtype: str) -> str:
    """What a reduction starts from."""
    if kind in ("any", "all"):
        return "true" if kind == "all" else "false"
    if kind in ("sum", "prod"):
        return number_text(0 if kind == "sum" else 1, dtype)
    if dtype.startswith("float"):
        return "-INFINITY" if kind != "min" else "INFINITY"
    limits = {"int64": "INT64", "int32": "INT"}.get(dtype, "SCHAR")
    return f"{limits}_{'MIN' if kind != 'min' else 'MAX'}"


def helpers(kernel: Kernel, *templates: str) -> str:
    """The device functions that combine partial results, for each kind and type of reduction."""
    kinds = dict.fromkeys((stage.kind, stage.dtype) for stage in kernel.reductions if stage.axes)
    return "".join(_helper(template, kind, dtype) for template in templates for kind, dtype in kinds)


def _helper(template: str, kind: str, dtype: str) -> str:
    text = REDUCTIONS[template].substitute(
        T=C_TYPES[dtype],
        warp=helper_name("warp", kind),
        block=helper_name("block", kind),
        column=helper_name("column", kind),
        identity=identity(kind, dtype),
        shuffle=update(kind, dtype, "value", "__shfl_xor_sync(0xffffffff, value, offset)"),
        joined=update(kind, dtype, "value", "partial[y][threadIdx.x]"),
        join=update(kind, dtype, "partial[threadIdx.x]", "partial[threadIdx.x + stride]"),
    )
    return f"{text}\n"


def helper_name(collective: str, kind: str) -> str:
    """What combines a team's partial results; `maximum` and `minimum` keep NaN, `max` does not."""
    names = {"fast_max": "max", "max": "maximum", "min": "minimum"}
    return f"{collective}_{names.get(kind, kind)}"


def update(kind: str, dtype: str, one: str, other: str) -> str:
    """The statement that combines a partial result into another."""
    if kind in ("sum", "prod"):
        return f"{one} {'+' if kind == 'sum' else '*'}= {other};"
    if kind in ("any", "all"):
        return f"{one} = {one} {'||' if kind == 'any' else '&&'} {other};"
    function = f"{kind}imum" if kind != "fast_max" else "fmaxf" if dtype == "float32" else "fmax"
    return f"{one} = {function}({one}, {other});"
