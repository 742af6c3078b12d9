"""From aten operators to loops, and from loops to fused kernels.

`lower_graph` applies one rule per operator; the modules beside it register the rules (`rules.rule`).
`fusion.group_loops` decides which loops share a kernel.
"""

from musadata.compiler.lowering.lower import Lowered, lower_graph

__all__ = ["Lowered", "lower_graph"]
