"""Reading the lists of names that the rules are made of."""

from pathlib import Path

from musadata.verifier.rules.name_lists import read_name_lists


def test_lists_go_by_their_titles_without_comments(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("# all of them\n\nfirst: a b\n    c.d\n\n# more\nsecond:\n*\n")
    assert read_name_lists(path) == {"first": ("a", "b", "c.d"), "second": ("*",)}
