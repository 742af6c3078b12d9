"""Joining calls and signatures on one line that have become short enough."""

from collections.abc import Sequence

import libcst as cst

LINE_LENGTH = 110
SHORT = 76  # calls shorter than this stand on one line
COMMA = cst.MaybeSentinel.DEFAULT  # none after the last item, and a space after all others
NO_SPACE = cst.SimpleWhitespace("")


def join_call(node: cst.Call) -> cst.Call:
    """The call on one line, if it is short and holds no comments."""
    last = len(node.args) - 1
    if all(_is_joined(item, place < last) for place, item in enumerate(node.args)) and _is_bare(
        node.whitespace_before_args
    ):
        return node
    args = [item.with_changes(comma=COMMA, whitespace_after_arg=NO_SPACE) for item in node.args]
    flat = node.with_changes(args=args, whitespace_before_args=NO_SPACE)
    code = cst.Module([]).code_for_node(flat)
    return flat if "\n" not in code and len(code) <= SHORT else node


def _is_joined(item: cst.Arg, followed: bool) -> bool:
    """Whether an argument is already formatted as on one line; generating code to find out would take far longer."""
    comma = item.comma
    if not _is_bare(item.whitespace_after_arg) or isinstance(comma, cst.Comma) != followed:
        return False
    return not isinstance(comma, cst.Comma) or (
        _is_bare(comma.whitespace_before) and _is_bare(comma.whitespace_after, " ")
    )


def _is_bare(space: cst.BaseParenthesizableWhitespace, text: str = "") -> bool:
    return isinstance(space, cst.SimpleWhitespace) and space.value == text


def join_signature(node: cst.FunctionDef) -> cst.FunctionDef:
    """The signature on one line, if it fits without its annotations."""

    def drawn(params: Sequence[cst.Param]) -> list[cst.Param]:
        return [item.with_changes(comma=COMMA, whitespace_after_param=NO_SPACE) for item in params]

    params = node.params
    every = [*params.posonly_params, *params.params, *params.kwonly_params]
    if any("#" in cst.Module([]).code_for_node(item) for item in every) or params.posonly_params:
        return node
    star = params.star_arg
    if isinstance(star, cst.ParamStar):
        star = cst.ParamStar()
    elif isinstance(star, cst.Param):
        star = drawn([star])[0]
    flat = params.with_changes(
        params=drawn(params.params),
        kwonly_params=drawn(params.kwonly_params),
        star_arg=star,
        star_kwarg=drawn([params.star_kwarg])[0] if params.star_kwarg else None,
    )
    bare = node.with_changes(params=flat, whitespace_before_params=cst.SimpleWhitespace(""))
    head = cst.Module([]).code_for_node(bare.with_changes(body=cst.SimpleStatementSuite([cst.Pass()]), decorators=[]))
    return bare if len(head.strip()) - len(" pass") <= LINE_LENGTH - 4 else node
