"""From aten operators to values and loops."""

from musadata.teacher.compiler.lowering.lower import lower_graph

__all__ = ["lower_graph"]
