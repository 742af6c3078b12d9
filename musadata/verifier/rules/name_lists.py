"""Lists of names that the rules are made of, kept as text files beside the modules that use them."""

from pathlib import Path


def read_name_lists(path: Path) -> dict[str, tuple[str, ...]]:
    """The lists of a file by their titles.

    A word that ends with a colon is the title of the list that follows it; a line that begins with # is a comment.
    """
    lists: dict[str, list[str]] = {}
    names: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        for word in [] if line.startswith("#") else line.split():
            if word.endswith(":"):
                names = lists.setdefault(word.removesuffix(":"), [])
            else:
                names.append(word)
    return {title: tuple(found) for title, found in lists.items()}
