"""Removing what ties code to a machine: a reference runs where its caller puts it, with weights that it draws itself.

It reads no command line, and needs no numpy of before 2.0. Constructors lose their `device` and `dtype` parameters,
since a reference never passes them.
"""

import ast
import re
from functools import lru_cache

import libcst as cst

from musadata.mining.slicing.line_joining import join_call, join_signature
from musadata.mining.slicing.renaming import dotted_name

PLACED = frozenset({"device", "dtype"})
CARRIERS = frozenset({"factory_kwargs", "dd"})  # what dictionaries of both are called, timm's `dd` too
NAMES = (*sorted(PLACED), "factory_kwargs")
CUDA = re.compile(r"^['\"]cuda(:\d+)?['\"]$")
TENSOR_TYPE = re.compile(r"^torch\.cuda\.(\w+Tensor)$")
INDEX = ("torch.cuda.current_device",)
DOWNLOADING = frozenset({"load_url", "load_state_dict_from_url"})
NAMING = frozenset({"autocast", "startswith", "endswith"})  # calls that take the name of a kind of device
PARSING = re.compile(r"\.(parse_args|parse_known_args)\(\)")
SCRIPTED = re.compile(r"\btorch\.jit\.script\(([\w.]+)\)")  # which needs the file of a function
DEVICE_NUMBER = re.compile(r"\.get_device\(\)(?=\s*[,)])")  # as an argument; elsewhere it is compared
OLD_NAME = re.compile(
    r"(?<![\w.])(np|numpy)\.(float|int|bool|complex|object|cumproduct|product|alltrue|sometrue|infty|Inf|NaN|NAN)\b"
)
NEW_NAMES = {"cumproduct": "cumprod", "product": "prod", "alltrue": "all", "sometrue": "any", "infty": "inf"}
NO_DEVICE = cst.Name("None")  # stands for the default device, wherever PyTorch takes a device


def has_placement(text: str) -> bool:
    """Whether code has such parameters."""
    return "factory_kwargs" in text or "device=None" in text


@lru_cache(maxsize=2048)
def drop_placement(text: str) -> str:
    """The definitions without these parameters, the dict that carries them, and the arguments that pass them on."""
    if not any(name in text for name in NAMES):
        return text
    return cst.parse_module(text).visit(_PlacementDropper()).code


@lru_cache(maxsize=2048)
def uses_placement(text: str) -> bool:
    """Whether code uses these parameters in another way, so that they must stay."""
    if not any(name in text for name in NAMES):
        return False
    finder = _UseFinder()
    finder.visit(ast.parse(text))
    return finder.found


class _UseFinder(ast.NodeVisitor):
    """Looks for the names outside of what `_PlacementDropper` drops."""

    found = False

    def visit_Name(self, node: ast.Name) -> None:
        self.found |= node.id in PLACED | CARRIERS

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        parameters = {item.arg for item in (*node.args.args, *node.args.kwonlyargs)}
        self.found |= node.name != "__init__" and bool(parameters & PLACED)  # calls may place what it makes
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not (isinstance(node.targets[0], ast.Name) and node.targets[0].id in CARRIERS):
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is None:
            handed_on = not CARRIERS.isdisjoint(re.findall(r"\w+", ast.unparse(node.value)))
        else:
            handed_on = node.arg in PLACED and isinstance(node.value, ast.Name) and node.value.id == node.arg
        if not handed_on:
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *(item.value for item in node.keywords), *node.body):
            self.visit(part)


class _PlacementDropper(cst.CSTTransformer):
    """Drops the parameters, the dict that carries them, and the arguments that pass them on."""

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        params = updated_node.params
        named = [item for item in params.params if not _is_placed(item)]
        keyword = [item for item in params.kwonly_params if not _is_placed(item)]
        same = len(named) == len(params.params) and len(keyword) == len(params.kwonly_params)
        if updated_node.name.value != "__init__" or same:
            return updated_node
        star = params.star_arg if keyword or isinstance(params.star_arg, cst.Param) else cst.MaybeSentinel.DEFAULT
        if not keyword and star is cst.MaybeSentinel.DEFAULT:
            named = _ending_like(named, [*params.params, *params.kwonly_params][-1])
        changed = params.with_changes(params=named, kwonly_params=keyword, star_arg=star)
        return join_signature(updated_node.with_changes(params=changed))

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        item = updated_node.body[0]
        if isinstance(item, cst.Assign) and dotted_name(item.targets[0].target) in CARRIERS:
            return cst.RemoveFromParent()
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        kept = [item for item in updated_node.args if not _hands_on(item)]
        if len(kept) < len(updated_node.args) and kept:
            last = updated_node.args[-1]
            kept[-1] = kept[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
        return join_call(updated_node.with_changes(args=kept))


def _ending_like(kept: list[cst.Param], last: cst.Param) -> list[cst.Param]:
    if not kept:
        return kept
    ending = kept[-1].with_changes(comma=last.comma, whitespace_after_param=last.whitespace_after_param)
    return [*kept[:-1], ending]


def _is_placed(item: cst.Param) -> bool:
    return item.name.value in PLACED and item.default is not None and _named(item.default, "None")


def _hands_on(item: cst.Arg) -> bool:
    if item.star == "**":
        return not CARRIERS.isdisjoint(re.findall(r"\w+", cst.Module([]).code_for_node(item.value)))
    keyword = item.keyword.value if item.keyword else ""
    return keyword in PLACED and _named(item.value, keyword)


def _named(node: cst.BaseExpression | cst.BaseAssignTargetExpression, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def drop_cuda(text: str) -> str:
    """The code without `.cuda()`, and with no device where it names CUDA; comparisons stay as they are."""
    return cst.parse_module(text).visit(_CudaDropper()).code


class _CudaDropper(cst.CSTTransformer):
    def visit_Comparison(self, node: cst.Comparison) -> bool:
        return False

    def visit_Call(self, node: cst.Call) -> bool:
        called = [node.func, *(item.value for item in node.args[:1])]  # `partial(autocast, "cuda")` calls it later
        return not any(dotted_name(item).rpartition(".")[2] in NAMING or _method(item) in NAMING for item in called)

    def visit_Arg(self, node: cst.Arg) -> bool:
        return node.keyword is None or node.keyword.value != "device_type"

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> bool:
        return not isinstance(node.body[0], (cst.Import, cst.ImportFrom))

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        return NO_DEVICE if CUDA.match(updated_node.value) else updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        found = TENSOR_TYPE.match(dotted_name(original_node))
        return cst.parse_expression(f"torch.{found[1]}") if found else updated_node

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.BaseExpression:
        """`"cuda" if torch.cuda.is_available() else "cpu"`."""
        asks = "torch.cuda.is_available()" in cst.Module([]).code_for_node(updated_node.test)
        return NO_DEVICE if asks and _is_no_device(updated_node.body) else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = dotted_name(updated_node.func)
        arguments = updated_node.args
        if name in INDEX:
            return NO_DEVICE
        if name.endswith("torch.device") or name == "device":
            return NO_DEVICE if arguments and _is_no_device(arguments[0].value) else updated_node
        function = updated_node.func
        if not isinstance(function, cst.Attribute):
            return updated_node
        only_places = len(arguments) == 1 and arguments[0].star == "" and _is_no_device(arguments[0].value)
        if function.attr.value == "cuda" or (function.attr.value == "to" and only_places):
            return function.value.with_changes(
                lpar=[*updated_node.lpar, *function.value.lpar], rpar=[*function.value.rpar, *updated_node.rpar]
            )
        return updated_node


def _method(node: cst.BaseExpression) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else ""


def _is_no_device(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def modernize(text: str) -> str:
    """The code as it runs today: with the defaults of its command line, and numpy's names of 2.0.

    Functions are not compiled, and a tensor's device stands for the number of its GPU, which is negative for a tensor
    that is on none.
    """
    text = SCRIPTED.sub(r"\1", DEVICE_NUMBER.sub(".device", text))
    return OLD_NAME.sub(_present_name, PARSING.sub(r".\1([])", text))


def _present_name(found: re.Match[str]) -> str:
    package, name = found.groups()
    if name in ("float", "int", "bool", "complex", "object"):
        return name  # what the alias meant
    return f"{package}.{NEW_NAMES.get(name, name.lower())}"


def loads_weights(node: ast.AST) -> bool:
    """Whether a statement loads trained weights from elsewhere, not from another module."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    is_load = isinstance(node.value.func, ast.Attribute) and node.value.func.attr == "load_state_dict"
    return is_load and ".state_dict(" not in ast.unparse(node)


@lru_cache(maxsize=2048)
def drop_weights(text: str) -> str:
    """The code without statements that load trained weights; an empty dictionary stands for what is downloaded."""
    return cst.parse_module(text).visit(_WeightDropper()).code


class _WeightDropper(cst.CSTTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = dotted_name(original_node.func).rpartition(".")[2]
        return cst.Dict([]) if name in DOWNLOADING else updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        text = cst.Module([]).code_for_node(original_node.with_changes(leading_lines=[])).strip()
        if len(original_node.body) == 1 and text.endswith(")") and loads_weights(ast.parse(text).body[0]):
            return updated_node.with_changes(body=[cst.Pass()])
        return updated_node
