"""The intermediate representation: captured graphs, index formulas, scalar values, and programs of loops.

A captured graph (`captured_graph`) is lowered to loops over `Value`s (`program`), whose elements are computed by scalar
operations (`scalar`) on index formulas (`index_formulas`). Needs no torch.
"""

import musadata.compiler.ir.printing  # noqa: F401 (it sets how expressions are printed)
