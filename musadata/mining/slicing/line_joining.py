"""Joining signatures on one line that have become short enough."""

from collections.abc import Sequence

import libcst as cst

LINE_LENGTH = 110
COMMA = cst.MaybeSentinel.DEFAULT  # none after the last item, and a space after all others
NO_SPACE = cst.SimpleWhitespace("")


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
