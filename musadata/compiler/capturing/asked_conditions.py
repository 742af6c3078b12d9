"""What a reference's own code asks about sizes, such as `if x.shape[0] > 100`: a graph holds for one answer only.

PyTorch's checks of arguments count too where they depend on attributes of the model that are symbols: a padding that is
less than the size, a window that fits.
"""

import sys
from types import FrameType
from typing import Any

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv, uninteresting_files

from musadata.compiler.capturing.constructor import FILE

_CHECKING_FILES = ("torch/_meta_registrations.py", "capturing/symbolic_operators.py")
_SHAPE_FILES = ("torch/_subclasses/", "torch/_meta_registrations.py", "torch/_prims_common/")
_INEQUALITIES = (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)


class AskedShapes(ShapeEnv):
    """A shape environment that remembers the questions of the reference's own code, with their answers.

    PyTorch asks as well, mostly to choose between implementations that compute the same. So that the answers that it
    gets settle no question of the reference, nothing is concluded from them about the range of a size.
    """

    def __init__(self) -> None:
        super().__init__(duck_shape=False)
        self.attributes: frozenset[Any] = frozenset()  # symbols that stand for attributes of the model
        self._asked: list[Any] = []

    @property
    def conditions(self) -> list[Any]:
        """What must hold so that each question has the answer that it got while tracing."""
        simple = [self.replace(condition) for condition in self._asked]
        return [condition for condition in dict.fromkeys(simple) if condition not in (True, sympy.true)]

    def evaluate_expr(self, orig_expr: Any, *arguments: Any, **options: Any) -> Any:
        frame = _asking_frame()
        file = frame.f_code.co_filename if frame is not None else ""
        if any(part in file for part in _SHAPE_FILES) and self._asks_for_small_number(orig_expr):
            return sympy.true if isinstance(orig_expr, sympy.Ne) else sympy.false
        answer = super().evaluate_expr(orig_expr, *arguments, **options)
        self._asked += [part for part in _conditions(orig_expr, answer) if self._counts(file, part)]
        return answer

    def _asks_for_small_number(self, asked: Any) -> bool:
        """Whether an attribute is 0 or 1: of a stride or a dilation, the formula of a shape is the same then."""
        is_equality = isinstance(asked, (sympy.Eq, sympy.Ne))
        return is_equality and asked.args[0] in self.attributes and asked.args[1] in (0, 1)

    def _counts(self, file: str, condition: Any) -> bool:
        checked = file.endswith(_CHECKING_FILES) and isinstance(condition, _INEQUALITIES)
        return file == FILE or (checked and not self.attributes.isdisjoint(condition.free_symbols))

    def _refine_ranges(self, expr: Any) -> None:
        pass


def _conditions(asked: Any, answer: Any) -> tuple[Any, ...]:
    if answer in (True, sympy.true):
        return asked.args if isinstance(asked, sympy.And) else (asked,)
    return (sympy.Not(asked),) if answer in (False, sympy.false) else (sympy.Eq(asked, answer),)


def _asking_frame() -> FrameType | None:
    """The innermost frame that does not belong to symbolic sizes themselves."""
    skipped = {*uninteresting_files(), __file__}
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename in skipped:
        frame = frame.f_back
    return frame
