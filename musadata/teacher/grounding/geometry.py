"""Claims about thread blocks, grids, tiles and passes, checked by arithmetic."""

import math
import re
from collections.abc import Iterable, Iterator

from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.expressions import numbers_in
from musadata.teacher.grounding.quantities import Quantity
from musadata.teacher.grounding.view import MOST_THREADS, WARP, View

_USUAL = frozenset((32, 64, 128, 256, 512, 1024))
_PER_BLOCK = re.compile(
    r"^(?:-? ?threads?) ?(?:\)|in |to )?(?:per|a|each|every|the|one|in (?:a|"
    r"each|every|one)|/) ?(?:thread )?blocks?\b|^(?:-? ?threads?) ?(?:thread )?blocks?\b|"
    r"^threads each\b|^wide blocks"
)
_BLOCK_LEAD = re.compile(
    r"\b(?:blocks? of(?: size)?|blockdim(?:\.x)?(?: =| of| is)?|block size(?: of|"
    r" =| is|:)?|blocks? (?:with|has|have|holds)|threads per block(?: =| is|"
    r":)|blocks of size) (?:about )?$"
)
_IDLE = r"(?:idle|unused|wasted|inactive|surplus|spare|excess|extra|masked|superfluous|out-of-range)"
_LIVE = r"(?:live|active|useful|working|busy|valid|in-range)"
_PASSES = r"(?:passes|pass|strides|iterations|iteration|rounds?|steps?|trips|loops?)"


def block_sizes(view: View) -> set[int]:
    """The sizes of blocks that a sentence states."""
    return {int(quantity.value) for at, quantity in view.open_figures() if _is_block_size(view, at)}


def tile_sizes(view: View) -> set[int]:
    sizes: set[int] = set()
    for at, quantity in view.open_figures():
        if (
            quantity.factors and re.match(r"(?:thread )?(?:output )?(?:tiles?|blocks?|thread)\b", view.after(at, 30))
        ) or (quantity.factors and re.search(r"\b(?:tiles?|blocks?) of $", view.before(at, 20))):
            sizes.update(quantity.factors)
    return sizes


def _is_block_size(view: View, at: int) -> bool:
    if view.quantity(at).factors:
        return False
    return bool(
        _PER_BLOCK.search(view.after(at, 40))
        or (
            _BLOCK_LEAD.search(view.before(at, 40))
            and not re.match(rf"(?:elements|rows|columns|bytes|floats|{_IDLE}|{_LIVE})", view.after(at, 20))
        )
    )


def judge_geometry(view: View) -> Iterator[Claim]:
    stated = block_sizes(view) | set(view.stated.blocks)
    tiles = tile_sizes(view) | set(view.stated.tiles)
    here = block_sizes(view)
    for at, quantity in view.open_figures():
        after, before = view.after(at, 70), view.before(at, 70)
        if quantity.factors and (
            re.match(r"(?:thread )?(?:output )?(?:tiles?|blocks?|thread)\b", after)
            or re.search(r"\b(?:tiles?|blocks?) of $", before)
        ):
            claim: Claim | None = _tile(view, at, tiles)
        elif _is_block_size(view, at):
            threads = int(quantity.value)
            whole = threads % WARP == 0 and 0 < threads <= MOST_THREADS
            claim = judged(ClaimKind.GEOMETRY, view.words(at), whole, "a block has 32 to 1024 threads, in whole warps")
        else:
            claim = _counted(view, at, frozenset(here or stated), frozenset(tiles), frozenset(here))
        if claim:
            view.taken.add(at)
            yield claim


def _tile(view: View, at: int, tiles: set[int]) -> Claim:
    """Two sizes before "blocks": those of a block, or of the grid."""
    quantity = view.quantity(at)
    first = quantity.factors
    if re.search(r"\b(?:grid|launch(?:es|ed)?)\b", view.before(at, 40)):
        others = tiles - set(first) or tiles
        return judged(ClaimKind.GEOMETRY, view.words(at), _is_grid(view, first, others), "not a grid over a tensor")
    whole = math.prod(first) <= MOST_THREADS or re.match(r"(?:output )?tiles?", view.after(at, 20)) is not None
    return judged(ClaimKind.GEOMETRY, view.words(at), whole, "a block has at most 1024 threads")


def _factors(quantity: Quantity) -> list[int]:
    """Sizes of tiles in the equations of a sentence."""
    found = (
        [int(n) for side in quantity.sides for n in numbers_in(side) if n.denominator == 1]
        if len(quantity.sides) > 1
        else []
    )
    return [n for n in found if n in (4, 8, 16, 32, 64, 128)]


def _is_grid(view: View, grid: tuple[int, ...], sizes: Iterable[int]) -> bool:
    for shape in view.facts.shapes:
        for size in sizes:
            cut = tuple(-(-n // size) for n in shape)
            for start in range(len(cut)):
                for length in (1, 2, 3):
                    part = cut[start : start + length]
                    if part in (grid, grid[::-1]):
                        return True
    counts = view.facts.counts
    return any(math.prod(grid) == -(-count // size) for count in counts for size in sizes)


def _work(view: View, at: int) -> set[int]:
    """How many elements may be dealt out: those that the sentence names, else those of any tensor."""
    facts = view.facts
    named = {
        int(q.value)
        for n, item in enumerate(view.items)
        if n != at
        and (q := view.quantity(n) if item.kind.value == "Q" else None)
        and q.value.denominator == 1
        and re.match(
            r"(?:[a-z-]+ )?(?:elements|results?|outputs?|values|floats|sums|entries|rows|pixels|scores)\b",
            view.after(n, 40),
        )
    }
    named &= facts.partial
    per_output = re.search(
        (
            r"\b(?:thread|lane) (?:per|for (?:each|every)|owns? (?:one|an)) (?:output|"
            r"result)\b|\bto cover the output\b|\boutput"
        ),
        view.skeleton,
    )
    if named:
        return named
    if re.search(
        r"\b(?:warp|block)s? (?:per|for each|for every|to each) (?:row|sum|norm|sequence|line)\b", view.skeleton
    ):
        return _rows(view)
    if per_output:
        return {math.prod(fact.shape) for fact in facts.outputs} | (
            {math.prod(s[-2:]) for f in facts.outputs for s in [f.shape]}
        )
    return set(facts.counts) | set(facts.partial)


def _rows(view: View) -> set[int]:
    facts = view.facts
    found = {math.prod(fact.shape[:-1]) for fact in facts.tensors if fact.shape}
    for fact in facts.tensors:
        for operand in facts.operands(fact):
            found |= {math.prod(operand.shape) // n for n in facts.reduced(fact) if n}
    return found


def _lines(view: View) -> set[int]:
    facts = view.facts
    return {fact.shape[-1] for fact in facts.tensors if fact.shape} | {
        n for fact in facts.tensors for n in facts.reduced(fact)
    }


def _counted(view: View, at: int, blocks: frozenset[int], tiles: frozenset[int], here: frozenset[int]) -> Claim | None:
    after = view.after(at, 70)
    adjectives = (
        (
            r"(?:(?:full|whole|more|last|such|launched|total|thread|different|independent|"
            r"complete|partial|output|consecutive|neighbouring|neighboring|needed|required|"
        )
        + _IDLE
        + "|"
        + _LIVE
        + r") )*"
    )
    match = re.match(
        rf"{adjectives}(?P<noun>blocks?|threads?|lanes?|warps?|{_PASSES}|tiles?|thread blocks?|ctas?)\b", after
    )
    elided = re.match(
        (
            r"(?:per|for each|for every|a) (?:matrix|image|plane|sample|batch|head)|"
            r"(?:overall|altogether|in total|in all)\b"
        ),
        after,
    ) and re.search(r"\bblocks\b", view.before(at, 200))
    lead = elided or re.search(
        (
            r"\b(?:grid(?:dim(?:\.x)?)?(?: size)?(?: of| =| is|:)|number of blocks(?: is|"
            r" =|:)|blocks =|blocks needed:|numblocks =) $"
        ),
        view.before(at, 40),
    )
    if match is None and not lead:
        return None
    noun = match["noun"].rstrip("s") if match else "block"
    if noun in ("step", "round", "loop", "stride", "iteration", "passe", "pas", "pass", "trip"):
        return _passes(view, at, here)
    if noun == "tile":
        tiles = tiles or frozenset(n for q in view.open_figures() for n in _factors(q[1]))
        allowed = {-(-n // t) for n in view.facts.sizes for t in tiles} | {0}
        grids = {
            -(-a // t) * -(-b // t) * c
            for s in view.facts.shapes
            for t in tiles
            for a in s
            for b in s
            for c in {1, *s, math.prod(s[:-2] or (1,))}
        }
        return (
            judged(ClaimKind.GEOMETRY, view.words(at), view.holds(at, allowed | grids), "not the number of tiles")
            if tiles
            else None
        )
    if view.quantity(at).value <= 1:
        view.taken.add(at)
        return None
    whole = match[0] if match else ""
    window = view.before(at, 50)
    if noun == "warp":
        rows = _rows(view)
        if re.match(r"warps? (?:per|a|in each|in a|each|to a|of a|in every) ", after[:40]) or re.search(
            r"\bblock (?:has|holds|is|of|with) $|\bper block $", window
        ):
            return judged(
                ClaimKind.GEOMETRY,
                view.words(at),
                view.holds(at, {b // WARP for b in blocks or _USUAL}),
                "not the warps of a block",
            )
        allowed = {b // WARP for b in blocks or _USUAL} | {-(-n // WARP) for n in view.facts.partial} | rows
        return judged(ClaimKind.GEOMETRY, view.words(at), view.holds(at, allowed), "not a number of warps")
    if noun == "block" or noun in ("cta", "thread block"):
        return judged(
            ClaimKind.GEOMETRY,
            view.words(at),
            view.holds(at, _blocks(view, at, blocks, tiles)),
            "not the number of blocks",
        )
    return _threads(view, at, blocks, whole)


def _blocks(view: View, at: int, blocks: frozenset[int], tiles: frozenset[int]) -> set[int]:
    work, text = _work(view, at), view.skeleton
    warps = {
        int(view.quantity(n).value)
        for n, item in enumerate(view.items)
        if item.kind.value == "Q" and re.match(r"warps? (?:per|a|in each|to a) block", view.after(n, 30))
    }
    if warps:
        return {-(-n // w) for n in _rows(view) for w in warps}
    if re.search(
        (
            r"\bblock (?:per|for each|for every|to each|owns (?:one|a)|handles (?:one|"
            r"a)) (?:[a-z]+ )?(?:row|sum|sequence|plane|channel|image|sample|head|matrix|"
            r"output|result|norm|group)"
        ),
        text,
    ):
        return _rows(view) | set(view.facts.partial)
    allowed: set[int] = set()
    vector = (
        {4, 2, 8}
        if re.search(r"\bfloat4|vectori[sz]ed|elements per thread|per thread\b", text)
        and "one element per thread" not in text
        else set()
    )
    for n in work:
        for b in blocks or _USUAL:
            allowed |= {
                -(-n // b),
                n // b
                if re.search(r"\bfull|whole|complete\b", view.after(at, 20) + view.before(at, 20))
                else -(-n // b),
            }
            allowed |= {-(-n // (b * v)) for v in vector}
            if re.search(r"\b(?:first|other|previous|remaining) $", view.before(at, 20)):
                allowed.add(-(-n // b) - 1)
    if tiles:
        for shape in view.facts.shapes:
            cut = [-(-n // t) for n in shape for t in tiles]
            pairs = {a * b for a in cut for b in cut}
            more = math.prod(shape[:-2]) if len(shape) > 2 else 1
            last = {-(-shape[-1] // t) * -(-shape[-2] // t) for t in tiles} if len(shape) > 1 else set()
            allowed |= set(cut) | (pairs if not blocks else set()) | {n * more for n in last}
    return allowed


def _threads(view: View, at: int, blocks: frozenset[int], words: str) -> Claim | None:
    if view.quantity(at).value <= 2:  # "no two threads"
        return None
    work = _work(view, at)
    window = view.before(at, 60) + words + view.after(at, 60)
    allowed: set[int] = set()
    is_idle = re.search(
        (
            rf"\b{_IDLE}\b|\bstay idle\b|nothing to do|do nothing|past the end|out of range|"
            rf"out of bounds|return(?:s)? early|exit"
        ),
        window,
    )
    is_live = re.search(rf"\b{_LIVE}\b|\bhave (?:an element|work)\b", window)
    for n in work:
        for b in blocks or _USUAL:
            count = -(-n // b)
            idle, live = count * b - n, n - (count - 1) * b
            allowed |= {idle} if is_idle else {live, n} if is_live else {idle, live, count * b, n, b}
            if is_idle:
                allowed.add(-n % WARP)
            elif is_live:
                allowed.add(n % WARP)
    if not is_idle:
        per_output = re.search(r"\bper (?:output|result)\b", window)
        allowed |= (
            {math.prod(f.shape) for f in view.facts.outputs} if per_output else set(view.facts.partial) | set(blocks)
        )
        if per_output and is_live:
            allowed = {math.prod(f.shape) for f in view.facts.outputs}
        allowed |= {WARP, *({MOST_THREADS} if "at most" in window or "limit" in window else ())}
    holds = view.holds(at, allowed) or view.is_derived(at, view.facts.known)
    return judged(ClaimKind.GEOMETRY, view.words(at), holds, "does not follow from a size and the block")


def _passes(view: View, at: int, blocks: frozenset[int]) -> Claim | None:
    sizes = set(blocks)
    if re.search(r"\b(?:warps?|lanes?)\b", view.skeleton):
        sizes.add(WARP)
    if not sizes or not re.search(
        r"\b(?:row|over|rows|elements|column|line|loops?|passes|needs?|takes?|strides?|covers?)\b", view.skeleton
    ):
        return None
    whole = set(view.facts.partial)
    lines = _lines(view) if re.search(r"\brows?|lines?\b", view.skeleton) else whole
    allowed = (
        {-(-n // b) for n in lines | _work(view, at) & whole for b in sizes}
        if lines is not whole
        else {-(-n // b) for n in whole for b in sizes}
    )
    if lines is not whole:
        allowed = {-(-n // b) for n in lines for b in sizes}
    allowed |= {n.bit_length() - 1 for n in sizes} | {n // WARP for n in sizes}
    holds = view.holds(at, allowed) or view.is_derived(at, view.facts.known)
    return judged(ClaimKind.GEOMETRY, view.words(at), holds, "not the number of passes")
