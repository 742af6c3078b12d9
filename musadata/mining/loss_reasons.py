"""Why no arguments were found: what a user would have to supply, or what the search did not find out."""

import re

# The first pattern that an error's type and message match gives the reason.
LACKING = (  # no arguments mend these
    (r"^(AbsentPackage|ModuleNotFoundError|ImportError)", "needs_package"),
    (r"^NameError", "unresolved_name"),
    (r"^(File\w+|IsADirectory|NotADirectory|Permission)Error|No such file|os\.PathLike", "needs_file"),
    (r"^(URLError|HTTPError|ConnectionError|gaierror)", "needs_network"),
    (r"Torch not compiled with|NVIDIA driver|CUDA (error|driver)|process group", "needs_device"),
    (r"^AttributeError: module '[\w.]+' has no attribute|Legacy autograd function|was removed in", "outdated_code"),
    (r"super\(type, obj\)|got multiple values for", "broken_code"),
    (r"^AttributeError: (type object )?'Model' (object )?has no attribute", "undefined_attribute"),
    (r"^NotImplementedError: (?!\"|.*(not implemented for|backend))", "not_implemented"),
    (r"^TypeError: Can't instantiate abstract class", "not_implemented"),
    (r"no tensor comes out", "returns_no_tensor"),
    (r"^forward takes no inputs", "takes_no_inputs"),
    (r"^forward takes inputs of any name", "needs_structured_input"),
    (r"^TooLarge", "too_large"),
)
STRUCTURES = {  # an input is more than a tensor, or an argument more than a plain value
    "forward": (
        r"^KeyError|'Tensor' object (has no|is not)|values? to unpack|cannot unpack|too many indices|not Tensor"
        r"|^TypeError: (list|tuple|string) ind|(list|tuple) index out of range|must be tuple of Tensors"
        r"|object is not (iterable|subscriptable)|invalid data type 'str'",
        "needs_structured_input",
    ),
    "init": (
        r"^KeyError|object (has no attribute|is not|does not)|not iterable|values? to unpack|cannot unpack|has no len"
        r"|(list|tuple) index out of range|unexpected keyword|positional argument|unsupported operand"
        r"|found element of type (tuple|list|str|float)\b",
        "needs_configuration",
    ),
}
NOT_FOUND = (
    (r"^AssertionError", "assertion_fails"),
    (
        r"scalar type|\b[dD]type|tensors used as indices|not implemented for '|Float and|found (Float|Long)",
        "dtypes_disagree",
    ),
    (r"^IndexError: (index|INDICES)|out of bounds|out of range in self|of the mask|Class values", "values_refused"),
    (
        r"^(?!AttributeError|UnboundLocalError)(?s:.*)"
        r"(\b[Ss]izes?\b|\b[Ss]hapes?\b|channels|\b[Dd]im(ension)?s?\b|multiplied|\d-?D\b|divisible|too small|kernel)",
        "shapes_disagree",
    ),
)


def loss_reason(stage: str, error: str) -> str:
    """The reason of a loss.

    Args:
        stage: where the search came furthest: "import", "init", "inputs", "forward", "lazy", or "" if nowhere.
        error: type and message of the exception.
    """
    ordered = [*LACKING, *([STRUCTURES[stage]] if stage in STRUCTURES else []), *NOT_FOUND]
    found = next((reason for pattern, reason in ordered if re.search(pattern, error)), "")
    if stage in ("import", "lazy") and found not in {reason for _, reason in LACKING}:
        found = ""
    return found or f"{stage or 'search'}_fails"
