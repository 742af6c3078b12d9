"""Rows of every kind, as the tests of a corpus draw them."""

from tests.corpus.conftest import rows_strategy, sample_rows

__all__ = ["rows_strategy", "sample_rows"]
