"""Why no arguments were found: what a user would have to supply, or what the search did not find out."""

from musadata.mining.reading.messages import ANY_INPUTS, NO_INPUTS, NO_TENSOR, Said, type_of

LACKING = {  # by the type of an exception; no arguments mend these
    **dict.fromkeys(("AbsentPackage", "ModuleNotFoundError", "ImportError"), "needs_package"),
    **dict.fromkeys(("FileNotFoundError", "IsADirectoryError", "NotADirectoryError", "PermissionError"), "needs_file"),
    **dict.fromkeys(("URLError", "HTTPError", "ConnectionError", "gaierror"), "needs_network"),
    "NameError": "unresolved_name",
    "TooLarge": "too_large",
    NO_INPUTS: "takes_no_inputs",
    ANY_INPUTS: "needs_structured_input",
}
TOLD = {Said.DEVICE: "needs_device", Said.OUTDATED: "outdated_code", Said.BROKEN: "broken_code"}
# An input is more than a tensor, or an argument more than a plain value.
STRUCTURES = {
    "forward": (("KeyError", "TypeError"), "needs_structured_input"),
    "init": (("KeyError", "TypeError", "AttributeError", "IndexError"), "needs_configuration"),
}
OF_SHAPES = (
    *(Said.EXPECTED, Said.SHAPE, Said.SHAPES, Said.PRODUCT, Said.STATISTICS, Said.SUM, Said.JOIN, Said.SPLIT),
    *(Said.VIEW, Said.SMALL, Said.DIVIDES, Said.RANK, Said.RANKS, Said.UNPACK),
)


def loss_reason(stage: str, error: str) -> str:
    """The reason of a loss.

    Args:
        stage: where the search came furthest: "import", "init", "inputs", "forward", "lazy", or "" if nowhere.
        error: type and message of the exception.
    """
    found = _lacking(error)
    if not found and stage not in ("import", "lazy"):
        found = _not_found(stage, error)
    return found or f"{stage or 'search'}_fails"


def _lacking(error: str) -> str:
    kind = type_of(error)
    told = next((said for said in TOLD if said.read(error)), None)
    attribute, broken = Said.ATTRIBUTE.read(error), Said.BROKEN.read(error)
    is_type = Said.FLOATS.read(error)
    if kind in LACKING:
        return LACKING[kind]
    if (kind == "NotImplementedError" and not is_type) or (broken and broken["abstract"]):
        return "not_implemented"
    if attribute and attribute["holder"] == "Model":
        return "undefined_attribute"
    return TOLD[told] if told else "returns_no_tensor" if NO_TENSOR in error else ""


def _not_found(stage: str, error: str) -> str:
    kind = type_of(error)
    kinds, structure = STRUCTURES.get(stage, ((), ""))
    attribute = Said.ATTRIBUTE.read(error)
    of_tensor = attribute is not None and attribute["holder"] == "Tensor"
    if kind in kinds or (stage == "forward" and (of_tensor or Said.UNPACK.read(error))):
        return structure
    if kind == "AssertionError":
        return "assertion_fails"
    if Said.INTEGERS.read(error) or Said.FLOATS.read(error):
        return "dtypes_disagree"
    if (kind == "IndexError" and not Said.AXIS.read(error)) or Said.SHARES.read(error):
        return "values_refused"
    is_shape = kind not in ("AttributeError", "UnboundLocalError") and any(said.read(error) for said in OF_SHAPES)
    return "shapes_disagree" if is_shape else ""
