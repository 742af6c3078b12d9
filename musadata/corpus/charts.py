"""HTML for the report: bars, tables, code. All text from data is escaped here and nowhere else."""

from collections.abc import Iterable, Sequence
from html import escape


def tiles(numbers: Iterable[tuple[str, str, str]]) -> str:
    """(value, label, note) as large numbers in a row."""
    cells = (
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(label)}</span><small>{escape(note)}</small></div>'
        for value, label, note in numbers
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def bars(rows: Sequence[tuple[str, int, str]], *, of: int | None = None) -> str:
    """(label, count, note) as horizontal bars, to scale with `of` or the largest."""
    scale = max([of or 0, *(count for _, count, _ in rows), 1])
    lines = [
        f'<tr><th>{escape(label)}</th><td class="bar">{_bar(((count, "good"),), scale)}</td>'
        f"<td>{count:,}</td><td class=note>{escape(note)}</td></tr>"
        for label, count, note in rows
    ]
    return f'<table class="bars">{"".join(lines)}</table>'


def shares(rows: Sequence[tuple[str, int, int, str]], good: str, bad: str) -> str:
    """(label, good, bad, note) as stacked bars, each on the scale of the largest sum."""
    scale = max([1, *(one + other for _, one, other, _ in rows)])
    lines = []
    for label, one, other, note in rows:
        percent = f"{one / (one + other):.0%}" if one + other else "–"
        bar = _bar(((one, "good"), (other, "bad")), scale)
        lines.append(
            f'<tr><th>{escape(label)}</th><td class="bar" title="{one:,} {good}, {other:,} {bad}">{bar}</td>'
            f"<td>{one:,} / {one + other:,}</td><td>{percent}</td><td class=note>{escape(note)}</td></tr>"
        )
    legend = f'<p class="legend"><i class="good"></i>{escape(good)} <i class="bad"></i>{escape(bad)}</p>'
    return f'{legend}<table class="bars">{"".join(lines)}</table>'


def _bar(parts: Iterable[tuple[int, str]], scale: int) -> str:
    spans = (f'<i class="{kind}" style="width:{100 * count / scale:.2f}%"></i>' for count, kind in parts if count)
    return "".join(spans)


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; numbers are aligned to the right."""
    first = rows[0] if rows else [""] * len(headings)
    kinds = [" class=number" if isinstance(cell, (int, float)) else "" for cell in first]
    head = "".join(f"<th{kind}>{escape(heading)}</th>" for heading, kind in zip(headings, kinds, strict=True))
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"<td class=number>{value:,}</td>"
    return f"<td>{escape(str(value))}</td>"


def conversation(messages: Iterable[tuple[str, str, str]]) -> str:
    """(role, text, note) as messages; fenced code as code."""
    return "".join(
        f'<div class="message {escape(role)}{" failed" if note not in ("", "accepted") else ""}">'
        f"<h4>{escape(role)}{f' · {escape(note)}' if note else ''}</h4>{prose(text)}</div>"
        for role, text, note in messages
    )


def prose(text: str) -> str:
    """Text with fenced code blocks; everything else keeps its lines."""
    pieces = []
    for index, piece in enumerate(text.split("```")):
        if index % 2:
            code = piece.partition("\n")[2] if "\n" in piece else piece
            pieces.append(f"<pre><code>{escape(code)}</code></pre>")
        elif piece.strip():
            pieces.append(f'<div class="prose">{escape(piece.strip())}</div>')
    return "".join(pieces)


def fold(title: str, body: str, *, opened: bool = False) -> str:
    """A section that opens on a click."""
    return f"<details{' open' if opened else ''}><summary>{escape(title)}</summary>{body}</details>"


def section(title: str, lead: str, *body: str) -> str:
    """A heading, one sentence, and what follows."""
    return f"<section><h2>{escape(title)}</h2><p>{escape(lead)}</p>{''.join(body)}</section>"
