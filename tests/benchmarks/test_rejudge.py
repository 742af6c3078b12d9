"""Verdicts are judged anew from a file, at toy size."""

from benchmarks.rejudge import main


def test_verdicts_are_judged_anew_from_a_file():
    assert main(["--verdicts", "40", "--kinds", "4"]) == 0
