"""A whole candidate for MUSA: the CUDA C++ in its string literals, and the Python that compiles and calls it."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache

from musadata.syntax import parse
from musadata.verifier.backends.musa.port import own_names, port_source
from musadata.verifier.backends.musa.python_port import Edit, ProgramText, port_python
from musadata.verifier.compilation.compile_errors import Unsupported
from musadata.verifier.compilation.speculative_compile import predict_sources

_PIECE = re.compile(r"([rRuU]?)(\"\"\"|'''|\"|')((?:\\.|.)*?)\2", re.DOTALL)
_CUDA_LOADER, _MUSA_LOADER = "torch.utils.cpp_extension", "torch_musa.utils.musa_extension"
_KEYWORDS = {
    "cuda_sources": "musa_sources",
    "extra_cuda_cflags": "extra_musa_cflags",
    "with_cuda": "with_musa",
}  # of torch_musa's `load_inline`
_FLAG = re.compile(r"-[DUIO]\w.*|-std=.*|-O\d")  # that any compiler takes


class CannotPort(Unsupported):
    """A program's text cannot be ported, although its kernels may have a counterpart; the text says why."""


def port_program(source: str) -> str:
    """The program with MUSA's names throughout; it imports torch_musa and is compiled by its `load_inline`.

    Raises:
        NoCounterpart: its CUDA C++ uses what MUSA does not have.
        CannotPort: its sources are not plain string literals, or it loads them in a way of its own.
    """
    sources = predict_sources(source)
    texts = {text for one in sources for text in (*one.cpp, *one.cuda) if text.strip()}
    if not texts:
        raise CannotPort("its sources cannot be read without running it")
    own = frozenset(name for one in sources for name, _ in one.functions or ())
    own = own.union(*map(own_names, texts))
    port = cache(lambda text: port_source(text, own))
    tree = parse(source)
    program = ProgramText(source)
    edits: list[Edit] = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in texts:
            found.add(str(node.value))
            edits.append(_port_literal(node, program, port))
        else:
            edits += _edits(node, program)
    if found != texts:
        raise CannotPort("its sources are not plain string literals")
    ported = port_python(program.edited(edits))
    if _CUDA_LOADER in ported:
        raise CannotPort("it loads its extension in a way of its own")
    return ported


def _port_literal(node: ast.Constant, program: ProgramText, port: Callable[[str], str]) -> Edit:
    """A literal, or several in a row, with what they hold ported."""
    start, end = program.span(node)
    literal = program.bytes[start:end].decode()
    text = _PIECE.sub(lambda piece: f"{piece[1]}{piece[2]}{port(piece[3])}{piece[2]}", literal)
    try:
        value = ast.literal_eval(f"({text})")
    except (SyntaxError, ValueError):
        value = None
    if value != port(str(node.value)):
        raise CannotPort("its sources are not plain string literals")
    return Edit(start, end, text)


def _edits(node: ast.AST, program: ProgramText) -> Iterator[Edit]:
    if isinstance(node, ast.ImportFrom) and node.module == _CUDA_LOADER:
        start, end = program.span(node)
        text = program.bytes[start:end].decode().replace(_CUDA_LOADER, _MUSA_LOADER, 1)
        yield Edit(start, end, f"import torch_musa\n{text}" if node.col_offset == 0 else text)
    elif isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg in _KEYWORDS:
                start, _ = program.span(keyword)
                yield Edit(start, start + len(keyword.arg), _KEYWORDS[keyword.arg])
            if keyword.arg == "extra_cuda_cflags":
                _refuse_flags(keyword.value)


def _refuse_flags(value: ast.expr) -> None:
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _FLAG.fullmatch(node.value):
            raise CannotPort(f"nvcc's flag {node.value[:40]}")
