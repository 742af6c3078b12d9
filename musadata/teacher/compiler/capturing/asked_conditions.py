"""What a reference's own code asks about sizes, such as `if x.shape[0] > 100`: a graph holds for one answer only."""

import sys
from types import FrameType
from typing import Any

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv, uninteresting_files

from musadata.teacher.compiler.capturing.constructor import FILE


class AskedShapes(ShapeEnv):
    """A shape environment that remembers the questions of the reference's own code, with their answers.

    PyTorch asks as well, mostly to choose between implementations that compute the same. So that the answers that it
    gets settle no question of the reference, nothing is concluded from them about the range of a size.
    """

    def __init__(self) -> None:
        super().__init__(duck_shape=False)
        self._asked: list[Any] = []

    @property
    def conditions(self) -> list[Any]:
        """What must hold so that each question has the answer that it got while tracing."""
        simple = [self.replace(condition) for condition in self._asked]
        return [condition for condition in dict.fromkeys(simple) if condition not in (True, sympy.true)]

    def evaluate_expr(self, orig_expr: Any, *arguments: Any, **options: Any) -> Any:
        answer = super().evaluate_expr(orig_expr, *arguments, **options)
        frame = _asking_frame()
        if frame is not None and frame.f_code.co_filename == FILE:
            self._asked.append(_condition(orig_expr, answer))
        return answer

    def _refine_ranges(self, expr: Any) -> None:
        pass


def _condition(asked: Any, answer: Any) -> Any:
    if answer in (True, sympy.true):
        return asked
    return sympy.Not(asked) if answer in (False, sympy.false) else sympy.Eq(asked, answer)


def _asking_frame() -> FrameType | None:
    """The innermost frame that does not belong to symbolic sizes themselves."""
    skipped = {*uninteresting_files(), __file__}
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename in skipped:
        frame = frame.f_back
    return frame
