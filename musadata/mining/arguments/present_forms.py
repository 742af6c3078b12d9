"""Code that PyTorch no longer takes, in the form that computes the same today. Runs inside the sandbox.

Masks were bytes before they were booleans, spectra had their real and imaginary parts in a last dimension, and more
results were contiguous. What fails for such a reason is rewritten where it failed, and the search begins again.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import TypeGuard

NEW = re.compile(r"(torch\.)?nn\.[A-Z]\w+$")
PLAIN = (ast.Constant, ast.List, ast.Tuple, ast.BinOp)
Edit = tuple[ast.AST, str]  # a node, and the text in its place


def in_present_form(source: str, error: str, line: int) -> str:
    """The source in which the old form that an error complains of is the present one; unchanged if it is none.

    Args:
        error: type and message of the exception.
        line: the number of the line that raised it, 0 if unknown.
    """
    for pattern, edits in FORMS.items():
        if re.search(pattern, error):
            tree = ast.parse(source)
            return _edited(source, list(edits(tree, source, line)))
    return source


def _masks(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`x.masked_fill(mask.byte(), 0)`: the mask as booleans."""
    for call in _calls(tree):
        name = _method(call)
        place = 1 if isinstance(call.func, ast.Attribute) and _text(source, call.func.value) == "torch" else 0
        place = 0 if name == "where" else place
        if name in ("masked_fill", "masked_fill_", "masked_select", "masked_scatter", "where") and call.args[place:]:
            mask = call.args[place]
            yield from [(mask, f"{_operand(source, mask)}.bool()")] if _method(mask) != "bool" else []


def _inverted(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`1 - mask` for a mask of booleans: of its bytes."""
    differences = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)]
    for node in differences:
        if _is_at(node, line) and isinstance(node.left, ast.Constant):
            yield node.right, f"{_operand(source, node.right)}.byte()"


def _item(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`loss.data[0]`: the number that a tensor without dimensions holds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_at(node, line) and _text(source, node.slice) == "0":
            yield node, f"{_text(source, node.value).removesuffix('.data')}.item()"


def _spectra(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`torch.stft(x, n)`: the parts of complex numbers in a last dimension."""
    for call in _calls(tree):
        if _method(call) == "stft" and all(item.arg != "return_complex" for item in call.keywords):
            yield call, f"torch.view_as_real({_text(source, call)[:-1].rstrip().rstrip(',')}, return_complex=True))"


def _signals(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`torch.istft(x, n)` of parts in a last dimension."""
    for call in _calls(tree):
        if _method(call) == "istft" and call.args:
            yield call.args[0], f"torch.view_as_complex({_operand(source, call.args[0])}.contiguous())"


def _views(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`x.view(n, -1)` of what is not contiguous any more."""
    for call in _calls(tree):
        if _method(call) == "view" and _is_at(call, line) and isinstance(call.func, ast.Attribute):
            yield call.func, f"{_text(source, call.func.value)}.reshape"


def _transforms(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`torch.rfft(x, 2)` and its kin, which took the number of dimensions."""
    for call in _calls(tree):
        name = _method(call)
        if _text(source, call.func) == f"torch.{name}" and name in ("rfft", "irfft", "fft", "ifft") and call.args:
            yield from _transform(call, name, source)


def _transform(call: ast.Call, name: str, source: str) -> Iterator[Edit]:
    named = ("input", "signal_ndim", "normalized", "onesided", "signal_sizes")
    given = {key: _text(source, item) for key, item in zip(named, call.args, strict=False)}
    given |= {item.arg: _text(source, item.value) for item in call.keywords if item.arg}
    count = given.get("signal_ndim", "1")
    flags = {given.get("normalized", "False"), given.get("onesided", "True")}
    if not count.isdigit() or not flags <= {"True", "False"}:
        return
    norm = ', norm="ortho"' if given.get("normalized") == "True" else ""
    axes = f"dim={tuple(range(-int(count), 0))}{norm}"
    whole = name in ("fft", "ifft") or given.get("onesided") == "False"
    signal = given["input"] if name == "rfft" else f"torch.view_as_complex(({given['input']}).contiguous())"
    if name == "irfft":
        sizes = f", s={given['signal_sizes']}" if "signal_sizes" in given and not whole else ""
        yield call, f"torch.fft.ifftn({signal}, {axes}).real" if whole else f"torch.fft.irfftn({signal}{sizes}, {axes})"
    else:
        function = "rfftn" if not whole else "ifftn" if name == "ifft" else "fftn"
        yield call, f"torch.view_as_real(torch.fft.{function}({signal}, {axes}))"


def _solved(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`torch.solve(b, a)` and `torch.symeig(a)`, which `torch.linalg` has."""
    for call in _calls(tree):
        name = _text(source, call.func)
        given = [_text(source, item) for item in call.args]
        if name == "torch.solve" and len(given) == 2:
            yield call, f"(torch.linalg.solve({given[1]}, {given[0]}), None)"
        elif name == "torch.symeig" and given:
            yield call, f'torch.linalg.eigh({given[0]}, UPLO="U")'


def _quotients(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`x[k]` after `k = i / n`, which was a quotient of integers."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    divided = [node for node in assigned if isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Div)]
    names = {_text(source, target) for node in divided for target in node.targets}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_at(node, line) and _text(source, node.slice) in names:
            yield node.slice, f"{_text(source, node.slice)}.long()"


def _bounds(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`x[:k]` after `k = i / 2` or `k = torch.div(i, 2).item()`, which were integers for integers."""
    slices = [node for node in ast.walk(tree) if isinstance(node, ast.Slice)]
    parts = [bound for node in slices for bound in (node.lower, node.upper, node.step)]
    bounds = [bound for bound in parts if bound is not None and _is_at(bound, line)]
    names = {_text(source, node) for bound in bounds for node in ast.walk(bound)}
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    values = [node.value for node in assigned if names & {_text(source, target) for target in node.targets}]
    for node in [node for value in (*bounds, *values) for node in ast.walk(value)]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield node, f"{_operand(source, node.left)} // {_operand(source, node.right)}"
        elif isinstance(node, ast.Call) and _text(source, node.func) == "torch.div" and len(node.args) == 2:
            first, second = (_text(source, item) for item in node.args)
            yield node, f'torch.div({first}, {second}, rounding_mode="trunc")'


def _floors(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`nn.Linear(n / 2, 3)`, whose quotient of integers was an integer: of what is handed to a layer."""
    made = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    calls = [node for node in _calls(tree) if _text(source, node.func) in made or NEW.match(_text(source, node.func))]
    yield from _divided(tree, source, calls)


def _counts(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`x.view(-1, n / 2)` and `range(n / 2)`, whose quotients of integers were integers: of what a line hands on."""
    yield from _divided(tree, source, [node for node in _calls(tree) if _is_at(node, line)])
    yield from _floors(tree, source, line)


def _divided(tree: ast.Module, source: str, calls: list[ast.Call]) -> Iterator[Edit]:
    """Quotients among the arguments of calls, and in what their variables are bound to, as whole numbers."""
    given = [item for node in calls for item in (*node.args, *(keyword.value for keyword in node.keywords))]
    named = [node for item in given for node in ast.walk(item) if isinstance(node, (ast.Name, ast.Attribute))]
    names = {_text(source, node) for node in named}
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    values = [node.value for node in assigned if names & {_text(source, target) for target in node.targets}]
    for node in dict.fromkeys(inner for item in (*given, *values) for inner in _terms(item)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield node, f"{_operand(source, node.left)} // {_operand(source, node.right)}"


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """An expression and what it is added and multiplied from, if no part of it is a number with a point."""
    if any(isinstance(item, ast.Constant) and isinstance(item.value, float) for item in ast.walk(node)):
        return
    yield node
    for item in (node.left, node.right) if isinstance(node, ast.BinOp) else getattr(node, "elts", ()):
        yield from _terms(item)


def _names_of_parts(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`self.add_module("norm.1", …)`: names of modules without points, which could be there once."""
    calls = [call for call in _calls(tree) if _method(call) in ("add_module", "register_module")]
    firsts = [call.args[0] for call in calls if call.args]
    firsts += [node.elts[0] for node in ast.walk(tree) if isinstance(node, ast.Tuple) and len(node.elts) == 2]
    dotted = {item.value for node in firsts for item in ast.walk(node) if _is_dotted(item)}
    for node in ast.walk(tree):
        if _is_dotted(node) and node.value in dotted:  # also where one is looked up
            yield node, repr(str(node.value).replace(".", "_"))


def _is_dotted(node: ast.AST) -> TypeGuard[ast.Constant]:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, str) and re.fullmatch(r"[\w%{}]+(\.[\w%{}]+)+", value) is not None


def _scalars(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`np.asscalar(x)`: the number in an array."""
    for call in _calls(tree):
        if _method(call) == "asscalar" and len(call.args) == 1:
            yield call, f"{_operand(source, call.args[0])}.item()"


def _lists(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`map(int, x)[0]` and `table.keys()[0]`, which were lists."""
    for call in _calls(tree):
        is_view = _method(call) in ("keys", "values", "items") and not call.args
        if is_view or _text(source, call.func) in ("map", "zip", "filter", "range"):
            yield call, f"list({_text(source, call)})"


def _items(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`table.iteritems()`."""
    for call in _calls(tree):
        if _method(call) in ("iteritems", "itervalues", "iterkeys") and isinstance(call.func, ast.Attribute):
            yield call.func, f"{_text(source, call.func.value)}.{call.func.attr.removeprefix('iter')}"


def _field_defaults(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`part: Part = Part()` in a data class: a value of its own for each, which Python 3.11 wants to be said."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"]
    known = [item.asname or item.name for node in imports for item in node.names if item.name == "field"]
    for node in imports[:1] if not known else ():
        yield node, f"from dataclasses import {', '.join(map(ast.unparse, node.names))}, field"
    make = known[0] if known else "field" if imports else "dataclasses.field"
    for owner in [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]:
        if any("dataclass" in ast.unparse(mark) for mark in owner.decorator_list):
            values = [item.value for item in owner.body if isinstance(item, ast.AnnAssign)]
            for value in [item for item in values if isinstance(item, ast.Call)]:
                if _text(source, value.func) != make:
                    yield value, f"{make}(default_factory=lambda: {_text(source, value)})"
                for item in value.keywords if _text(source, value.func) == make else ():
                    if item.arg == "default" and isinstance(item.value, ast.Call):
                        yield item, f"default_factory=lambda: {_text(source, item.value)}"


def _weights(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`weight[0] = 0` and `weight[0].fill_(0)` of what a parameter holds, which need no gradient."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        is_at = isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)) and node.lineno <= line <= (
            node.end_lineno or 0
        )
        if is_at and isinstance(node, ast.Expr) and _method(node.value).endswith("_"):
            targets = [node.value.func.value]  # type: ignore[attr-defined]
        for target in targets if is_at else ():
            held = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(held, (ast.Name, ast.Attribute)) and (held is not target or isinstance(node, ast.Expr)):
                yield held, f"{_text(source, held)}.data"


def _held(tree: ast.Module, source: str, line: int) -> Iterator[Edit]:
    """`c.x if "x" in c else 1` and `"x" in c` where an object takes the place of a configuration of its own class."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    around = [node for node in functions if node.lineno <= line <= (node.end_lineno or 0)]
    nodes = list(ast.walk(max(around, key=lambda node: node.lineno))) if around else []
    tests = [node for node in nodes if isinstance(node, ast.Compare) and _asks_for_name(node)]
    failing = {_text(source, node.comparators[0]) for node in tests if _is_at(node, line)}
    asked = {}
    for node in tests:
        given = f"{_text(source, node.comparators[0])}, {_text(source, node.left)}"
        if _text(source, node.comparators[0]) in failing:
            asked[id(node)] = f"{ast.unparse(node.comparators[0])}.{ast.literal_eval(node.left)}", given
            yield node, f"{'not ' if isinstance(node.ops[0], ast.NotIn) else ''}hasattr({given})"
    for choice in nodes:
        if isinstance(choice, ast.IfExp) and isinstance(choice.orelse, PLAIN):
            read, given = asked.get(id(choice.test), ("", ""))
            if read == ast.unparse(choice.body):
                yield choice, f"getattr({given}, {_text(source, choice.orelse)})"


def _asks_for_name(node: ast.Compare) -> bool:
    is_name = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    return is_name and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn))


FORMS: dict[str, Callable[[ast.Module, str, int], Iterator[Edit]]] = {
    r"only supports boolean masks|expected condition to be a boolean|BoolTensor for mask": _masks,
    r"Subtraction, the `-` operator, with( two)? (a )?bool": _inverted,
    r"invalid index of a 0-dim tensor": _item,
    r"stft requires the return_complex": _spectra,
    r"istft requires a complex-valued": _signals,
    r"view size is not compatible with input tensor's size and stride": _views,
    r"module 'torch' has no attribute '(rfft|irfft|ifft)'|'module' object is not callable": _transforms,
    r"`torch\.solve` is deprecated|now removed\. The default behavior has changed from using the upper tri": _solved,
    r"tensors used as indices must be": _quotients,
    r"slice indices must be integers": _bounds,
    r"of ints, ?but (got|found element of type) float|'float' object cannot be interpreted as an integer": _counts,
    r"must be (int(eger)?|tuple of ints), not float|\bgot .*\bfloat\b.*(?:int|size)": _counts,
    r"(?s)(empty|conv\w*)\(\) received an invalid.*[( !]float": _counts,
    r"module name can.{1,2}t contain": _names_of_parts,
    r"has no attribute 'asscalar'": _scalars,
    r"'(map|zip|filter|range|dict_keys|dict_values|dict_items)' object (is not subscriptable|has no len)": _lists,
    r"has no attribute 'iter(items|values|keys)'": _items,
    r"argument of type '(types\.)?SimpleNamespace' is not iterable": _held,
    r"leaf Variable that requires grad .*in-place": _weights,
    r"mutable default .* for field \w+ is not allowed": _field_defaults,
}


def _calls(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _method(node: ast.AST) -> str:
    """The name of the method or of a module's function that is called; "" for anything else."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _is_at(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _text(source: str, node: ast.AST) -> str:
    return ast.get_source_segment(source, node) or ""


def _operand(source: str, node: ast.expr) -> str:
    """The text of an expression, such that an attribute of its value can follow."""
    text = _text(source, node)
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({text})"


def _edited(source: str, edits: list[Edit]) -> str:
    """The source with these edits; of edits inside each other the outer one."""
    starts = [0]
    for row in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    spans = [
        (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset, text)  # type: ignore[attr-defined]
        for node, text in edits
    ]
    data = source.encode()
    begin = len(data)
    for start, end, text in sorted(spans, key=lambda span: (span[1], -span[0]), reverse=True):
        if end <= begin:
            data, begin = data[:start] + text.encode() + data[end:], start
    return data.decode()
