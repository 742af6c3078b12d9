"""A program of its own: reads CUDA as Clang does and writes down what stands in the wrong execution space.

The folder in which it runs holds job.json (file, flags, and the candidate's texts by name) and receives found.json:
a list of [file, line, message]. It imports nothing of the project, so that it starts at once, and runs contained.
"""

import json
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from clang import cindex

_MEMORY = {"CUDADEVICE_ATTR", "CUDACONSTANT_ATTR", "CUDASHARED_ATTR"}
_WRONG_CALL = re.compile(r"call to (__host__|__device__|__global__) function from ([_a-z ]+) function$")
_WRONG_FUNCTION = re.compile(r"^reference to (__host__|__device__|__global__) function '(.+)' in ([_a-z ]+) function$")
_WRONG_VARIABLE = re.compile(r"^reference to __host__ variable '(.+)' in ([_a-z ]+) function$")
_SUBJECT = re.compile(r"'([^']+)'")
_NO_MEMBER = "a __global__ function cannot be a member of a class"
_PLAIN = (
    (re.compile(r"^cannot use '(throw|try)' in [_a-z ]+ function"), "device code has no exceptions"),
    (re.compile(r"^call to global function ('.+') not configured$"), "a __global__ function is launched, not called"),
    (re.compile(r"^kernel call to non-global function ('.+')$"), "only a __global__ function can be launched"),
    (re.compile(r"^cannot use variable-length arrays in"), "an array in device code has a constant length"),
    (re.compile(r"^kernel function type .* must have void return type$"), "a __global__ function must return void"),
    (re.compile(r"^kernel function '.*' must be a free function"), _NO_MEMBER),
    (re.compile(r"^'.*' and '.*' attributes are not compatible$"), "a __global__ function is for nothing else"),
)
_UNEVALUATED = re.compile(r"\b(decltype|sizeof|noexcept|declval)\s*(\(|<)[^;{]*$")
_OF_DEVICE = {"CUDAGLOBAL_ATTR", "CUDADEVICE_ATTR"}
_FUNCTIONS = ("FUNCTION_DECL", "CXX_METHOD", "FUNCTION_TEMPLATE", "CONSTRUCTOR")
_CLASSES = ("STRUCT_DECL", "CLASS_DECL", "CLASS_TEMPLATE")
_SCOPES = ("NAMESPACE", *_CLASSES, "LINKAGE_SPEC", "UNEXPOSED_DECL")


class Reader:
    """What one parsed file holds that belongs to the candidate."""

    def __init__(self, job: dict[str, Any]):
        self._lines = {name: text.splitlines() for name, text in job["texts"].items()}
        self._host_library = set(job["host_library"])
        self._device_library = set(job["device_library"])
        self._unit = cindex.Index.create().parse(job["file"], args=job["flags"])
        functions = list(self._functions(self._unit.cursor))
        self._of_device = [function for function in functions if _attributes(function) & _OF_DEVICE]
        self._of_host = [function for function in functions if self._is_compiled_for_the_host(function)]
        self._device_names = {function.spelling for function in self._of_device}

    def found(self) -> Iterator[tuple[str, int, str]]:
        """Every mistake as (file, line, message)."""
        for diagnostic in self._unit.diagnostics:
            if diagnostic.severity >= cindex.Diagnostic.Error and self._is_own(diagnostic.location):
                message = self._read(diagnostic)
                if message and not self._is_unevaluated(diagnostic.location):
                    yield _file(diagnostic.location), diagnostic.location.line, message
        for function in self._of_device:
            wrong = self._read_kernel(function)
            if wrong:
                yield _file(function.location), function.location.line, wrong
            for cursor in function.walk_preorder():
                message = self._read_use(cursor)
                if message:
                    yield _file(cursor.location), cursor.location.line, message
        for function in self._of_host:
            for cursor in _of_one_space(function):
                message = self._read_use_by_host(function, cursor)
                if message:
                    yield _file(cursor.location), cursor.location.line, message

    def _is_own(self, location: Any) -> bool:
        return location.file is not None and _file(location) in self._lines

    def _is_unevaluated(self, location: Any) -> bool:
        line = self._lines[_file(location)][location.line - 1 : location.line]
        return bool(line and _UNEVALUATED.search(line[0][: location.column - 1]))

    def _read(self, diagnostic: Any) -> str:
        """What is wrong with an execution space, or "" if the diagnostic is of something else."""
        said = diagnostic.spelling
        for pattern, meaning in _PLAIN:
            match = pattern.match(said)
            if match:
                return meaning + (f": {match[1]}" if match.groups() else "")
        notes = [note for note in diagnostic.children if self._is_own(note.location)]
        function, variable = _WRONG_FUNCTION.match(said), _WRONG_VARIABLE.match(said)
        if function and notes:
            return self._call(function[1], function[3], function[2])
        if variable and notes:
            return f"a host variable ('{variable[1]}') cannot be read in a {variable[2]} function"
        calls = [call for call in (_WRONG_CALL.search(note.spelling) for note in notes) if call]
        subject = _SUBJECT.search(said)
        return self._call(calls[0][1], calls[0][2], subject[1] if subject else "") if calls else ""

    def _call(self, callee: str, caller: str, name: str) -> str:
        # nvcc warns of a call from a function for both sides, and takes what is declared for the device anywhere as
        # a function for both sides.
        if caller == "__host__ __device__" or (callee == "__host__" and name in self._device_names):
            return ""
        named = f" '{name}'" if name else ""
        return f"calling a {callee} function{named} from a {caller} function is not allowed"

    def _read_kernel(self, function: Any) -> str:
        """What is wrong with a kernel's declaration that Clang lets pass."""
        if "CUDAGLOBAL_ATTR" not in _attributes(function):
            return ""
        if function.semantic_parent is not None and function.semantic_parent.kind.name in _CLASSES:
            return _NO_MEMBER
        if function.type.kind.name == "FUNCTIONPROTO" and function.type.is_function_variadic():
            return "a __global__ function cannot take any number of arguments through an ellipsis"
        parameters = (part for part in function.get_children() if part.kind.name == "PARM_DECL")
        if any(part.type.kind.name == "RVALUEREFERENCE" for part in parameters):
            return "a __global__ function cannot have a parameter with an rvalue reference type"
        if function.result_type.kind.name == "AUTO":
            return "a __global__ function must return void, not a deduced type"
        line = self._lines[_file(function.location)][function.location.line - 1]
        if re.search(r"\bconst(expr|eval)\b", line[: function.location.column - 1]):
            return "a __global__ function cannot be constexpr"
        return ""

    def _read_use(self, cursor: Any) -> str:
        """What is wrong with a use in device code that Clang lets pass."""
        kind = cursor.kind.name
        if kind == "ARRAY_SUBSCRIPT_EXPR":
            parts = list(cursor.get_children())
            variable = next((part.referenced for part in parts[0].walk_preorder() if part.referenced), None)
            if variable is not None and self._is_array_of_the_host(variable) and _is_variable(parts[-1]):
                return f"the array '{variable.spelling}' is the host's: declare it __constant__ or __device__"
        if kind == "DECL_REF_EXPR" and cursor.spelling in self._host_library:
            declared = cursor.referenced
            if declared is not None and not self._is_own(declared.location):
                return f"calling a __host__ function '{cursor.spelling}' from device code is not allowed"
        return ""

    def _functions(self, parent: Any) -> Iterator[Any]:
        for cursor in parent.get_children():
            kind = cursor.kind.name
            if not self._is_own(cursor.location):
                continue
            if kind in _FUNCTIONS:
                yield cursor
            elif kind in _SCOPES:
                yield from self._functions(cursor)

    def _is_compiled_for_the_host(self, function: Any) -> bool:
        """Whether the host gets all that is seen of a function: nothing if it is a template that it does not use, and
        another text where a function for both asks for __CUDA_ARCH__."""
        attributes = _attributes(function)
        if not attributes & _OF_DEVICE:
            return function.kind.name != "FUNCTION_TEMPLATE"
        is_template = "_TEMPLATE" in function.kind.name or "_TEMPLATE" in function.semantic_parent.kind.name
        is_whole = not any("__CUDA_ARCH__" in line for line in self._lines[_file(function.location)])
        return "CUDAHOST_ATTR" in attributes and not is_template and is_whole

    def _read_use_by_host(self, function: Any, cursor: Any) -> str:
        """What is wrong with a use of a device's function in code that the host gets, too."""
        declared = cursor.referenced if cursor.kind.name in ("DECL_REF_EXPR", "MEMBER_REF_EXPR") else None
        if declared is None:
            return ""
        name = cursor.spelling.replace("emulator_", "__")
        caller = "__host__ __device__" if _attributes(function) & _OF_DEVICE else "__host__"
        is_library = name in self._device_library and not self._is_own(declared.location)
        attributes = _attributes(declared)
        is_of_device = "CUDADEVICE_ATTR" in attributes and "CUDAHOST_ATTR" not in attributes
        is_called = caller != "__host__" and is_of_device and declared.kind.name in _FUNCTIONS
        if is_library or (is_called and self._is_own(declared.location)):
            return f"calling a __device__ function '{name}' from a {caller} function is not allowed"
        return ""

    def _is_array_of_the_host(self, variable: Any) -> bool:
        """nvcc knows of the host's constants only their values, Clang also where they are."""
        if variable.kind.name != "VAR_DECL" or not self._is_own(variable.location):
            return False
        if variable.type.get_canonical().kind.name not in ("CONSTANTARRAY", "INCOMPLETEARRAY"):
            return False
        if variable.semantic_parent is None or variable.semantic_parent.kind.name in _FUNCTIONS:
            return False
        return not any(part.kind.name in _MEMORY for part in variable.get_children())


def _of_one_space(cursor: Any) -> Iterator[Any]:
    """A function's parts, without the lambdas and local classes' methods in it that are for the device."""
    yield cursor
    for part in cursor.get_children():
        kind = part.kind.name
        if kind == "LAMBDA_EXPR":
            head = takewhile(lambda token: token != "{", (token.spelling for token in part.get_tokens()))
            is_of_device = "__device__" in head
        else:
            is_of_device = kind in _FUNCTIONS and bool(_attributes(part) & _OF_DEVICE)
        if not is_of_device:
            yield from _of_one_space(part)


def _attributes(function: Any) -> set[str]:
    return {part.kind.name for part in function.get_children() if part.kind.is_attribute()}


def _is_variable(index: Any) -> bool:
    """Whether an index is known only when the kernel runs."""
    for part in index.walk_preorder():
        kind = part.kind.name
        if kind in ("CALL_EXPR", "MEMBER_REF_EXPR"):
            return True
        if kind == "DECL_REF_EXPR" and part.referenced is not None:
            declared = part.referenced
            if declared.kind.name == "PARM_DECL" or (
                declared.kind.name == "VAR_DECL" and not declared.type.is_const_qualified()
            ):
                return True
    return False


def _file(location: Any) -> str:
    """The candidate's files stand in this folder or have no folder; all others have."""
    return str(location.file.name).removeprefix("./")


if __name__ == "__main__":
    reader = Reader(json.loads(Path("job.json").read_text(encoding="utf-8")))
    Path("found.json").write_text(json.dumps(list(dict.fromkeys(reader.found()))), encoding="utf-8")
