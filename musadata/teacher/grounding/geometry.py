"""Claims about thread blocks, grids, tiles and passes, checked by arithmetic."""

import math
import re
from collections.abc import Collection, Iterator

from musadata.teacher.grounding.claims import Claim, ClaimKind, judged, unchecked
from musadata.teacher.grounding.context import MOST_THREADS, WARP, View
from musadata.teacher.grounding.equations import is_derived
from musadata.teacher.grounding.expressions import numbers_in
from musadata.teacher.grounding.lexicon import WORDS

_USUAL = frozenset((32, 64, 128, 256, 512, 1024))
_FIGURE = re.compile(r"Q\d+ ")
_TILES = frozenset((4, 8, 16, 32, 64, 128))


def block_sizes(view: View) -> set[int]:
    """The sizes of blocks that a sentence states."""
    return {int(quantity.value) for at, quantity in view.open_figures() if _is_block_size(view, at)}


def tile_sizes(view: View) -> set[int]:
    """The sides of tiles that a sentence states."""
    return {n for at, quantity in view.open_figures() if _is_tile(view, at) for n in quantity.factors}


def _is_tile(view: View, at: int) -> bool:
    named = WORDS.tile_noun.match(view.after(at, 30)) or WORDS.tile_of.search(view.before(at, 20))
    return bool(at not in view.taken and view.quantity(at).factors and named)


def _is_block_size(view: View, at: int) -> bool:
    if view.quantity(at).factors:
        return False
    after = view.after(at, 40)
    return bool(
        WORDS.of_block.search(after)
        or (WORDS.block_is.search(view.before(at, 40)) and not WORDS.no_block_size.match(after))
    )


def judge_geometry(view: View) -> Iterator[Claim]:
    if not WORDS.of_launch.search(view.skeleton):
        return
    if WORDS.of_machine.search(view.skeleton):  # "room for 2048 threads and 32 blocks on an SM"
        view.taken.update(at for at, _ in view.open_figures() if WORDS.geometry_noun.match(view.after(at, 70)))
        return
    here = block_sizes(view)
    blocks = frozenset(here or view.stated.blocks or _USUAL)
    tiles = tile_sizes(view) | set(view.stated.tiles)
    yield from _exact(view, blocks)
    for at, quantity in view.open_figures():
        if _is_tile(view, at):
            claim: Claim | None = _tile(view, at, tiles)
        elif _is_block_size(view, at):
            threads = int(quantity.value)
            whole = threads % WARP == 0 and 0 < threads <= MOST_THREADS
            claim = judged(ClaimKind.GEOMETRY, view.words(at), whole, "a block has 32 to 1024 threads, in whole warps")
        else:
            claim = _counted(view, at, blocks, tiles, bool(here))
        if claim:
            view.taken.add(at)
            yield claim


def _exact(view: View, blocks: frozenset[int]) -> Iterator[Claim]:
    """ "12 blocks of 256 threads cover them exactly": no thread is left over."""
    match = WORDS.exactly.search(view.skeleton)
    if match and len(blocks) == 1:
        threads = view.quantity(int(match["blocks"])).value * next(iter(blocks))
        yield judged(ClaimKind.GEOMETRY, match[0], threads in view.facts.partial, "threads are left over")


def _tile(view: View, at: int, tiles: set[int]) -> Claim:
    """Two sizes before "blocks": those of a block, or of the grid."""
    factors = view.quantity(at).factors
    if WORDS.grid.search(view.before(at, 40)):
        if view.stated.program:
            started = {one.blocks[: len(factors)] for one in view.stated.launches}
            return judged(ClaimKind.GEOMETRY, view.words(at), factors in started, "not a grid that the program starts")
        others = tiles - set(factors) or tiles
        cuts = {tuple(-(-n // size) for n in shape) for shape in view.facts.shapes for size in others}
        parts = {cut[start : start + length] for cut in cuts for start in range(len(cut)) for length in (1, 2, 3)}
        good = factors in parts or factors[::-1] in parts
        good = good or any(math.prod(factors) == -(-count // size) for count in view.facts.counts for size in others)
        return judged(ClaimKind.GEOMETRY, view.words(at), good, "not a grid over a tensor")
    around = view.before(at, 20) + view.after(at, 20)
    whole = math.prod(factors) <= MOST_THREADS or re.search(r"\btiles?\b", around) is not None
    return judged(ClaimKind.GEOMETRY, view.words(at), whole, "a block has at most 1024 threads")


def _counted(view: View, at: int, blocks: frozenset[int], tiles: set[int], is_told: bool) -> Claim | None:
    """The judgement of a number of blocks, threads, warps, tiles or passes; None for another figure."""
    match, before = WORDS.geometry_noun.match(view.after(at, 70)), view.before(at, 60)
    fills = WORDS.fills.search(before) and WORDS.grouped.search(view.before(at, 200))  # "…, and 11700 outputs fill 46"
    follows = WORDS.elided_blocks.match(view.after(at, 40)) and "blocks" in view.before(at, 200)
    elided = fills or follows or WORDS.grid_is.search(before)
    if match is None and not elided:
        return None
    noun, words = (match["noun"], match[0]) if match else ("blocks", "")
    if view.quantity(at).value.denominator > 1:  # "64.3 blocks, so 65"
        return unchecked(ClaimKind.GEOMETRY, view.words(at))
    if view.quantity(at).value <= (1 if "block" in noun else 2):
        return unchecked(ClaimKind.GEOMETRY, view.words(at))
    window = f"{_FIGURE.split(before)[-1]}# {words} {_FIGURE.split(view.after(at, 60)[len(words) :])[0]}"
    if noun.startswith("warp"):
        allowed = {b // WARP for b in blocks} | _cut(_work(view, at), {WARP}) | _rows(view)
    elif noun.startswith(("thread", "lane")) and not noun.startswith("thread block"):
        allowed = _threads(view, at, blocks, window)
    elif noun.startswith(("block", "thread block", "cta")):
        allowed = _blocks(view, at, blocks, tiles, window)
    elif noun.startswith("tile"):
        tiles = tiles or {int(n) for _, q in view.all_figures() for side in q.sides for n in numbers_in(side)} & _TILES
        allowed = _cut(view.facts.partial, tiles) | _grids(view, tiles)
    else:
        sizes = set(blocks) if is_told else set()
        sizes |= {WARP} if re.search(r"\b(?:warps?|lanes?)\b", view.skeleton) else set()
        lines = _lines(view) if re.search(r"\b(?:rows?|lines?)\b", view.skeleton) else view.facts.partial
        allowed = (
            _cut(lines, sizes) | {n.bit_length() - 1 for n in sizes} | {n // WARP for n in sizes} if sizes else set()
        )
    is_open = view.stated.program and not is_told and not WORDS.of_whole_launch.search(view.skeleton)
    if not allowed or is_open:
        return unchecked(ClaimKind.GEOMETRY, view.words(at))
    if not view.holds(at, allowed) and is_derived(view, at, view.facts.known):
        return unchecked(ClaimKind.GEOMETRY, view.words(at))
    return judged(
        ClaimKind.GEOMETRY, view.words(at), view.holds(at, allowed), "does not follow from a size and the block"
    )


def _cut(sizes: Collection[int], by: Collection[int]) -> set[int]:
    return {-(-n // size) for n in sizes for size in by}


def _blocks(view: View, at: int, blocks: frozenset[int], tiles: set[int], window: str) -> set[int]:
    of_block = re.compile(r"(?:warps?|rows?) (?:per|a|in each|to a|for each) block")
    warps = {int(quantity.value) for n, quantity in view.all_figures() if of_block.match(view.after(n, 30))}
    if warps:
        return _cut(_rows(view), warps)
    work = _work(view, at)
    allowed = _cut(work, blocks) | (_rows(view) if view.stated.program else set())
    if WORDS.one_per_row.search(view.skeleton):
        allowed = _rows(view) | set(view.facts.partial)
    if WORDS.full.search(window[:90]):
        allowed |= {n // size for n in work for size in blocks}
    if WORDS.all_but_last.search(view.before(at, 20)):
        allowed |= {n - 1 for n in allowed}
    if WORDS.vectorised.search(view.skeleton) and "one element per thread" not in view.skeleton:
        items = {int(q.value) for _, q in view.all_figures() if 1 < q.value <= 16 and q.value.denominator == 1} | {4}
        allowed |= _cut(work, {size * n for size in blocks for n in items})
    return allowed | (_grids(view, tiles) | _cut(view.facts.sizes, tiles) if tiles else set())


def _grids(view: View, tiles: Collection[int]) -> set[int]:
    """Tiles that cover the last two axes of a tensor, and those of all its matrices."""
    found = set()
    for shape in view.facts.shapes:
        if len(shape) > 1:
            some = {-(-shape[-2] // a) * -(-shape[-1] // b) for a in tiles for b in tiles}
            found |= some | {n * math.prod(shape[:-2]) for n in some}
    return found


def _threads(view: View, at: int, blocks: frozenset[int], window: str) -> set[int]:
    is_idle, is_live = WORDS.idle.search(window), WORDS.live.search(window)
    allowed: set[int] = set()
    work = _work(view, at)
    if is_idle or is_live:
        lines = _lines(view) if re.search(r"\b(?:rows?|lines?)\b", view.skeleton) else set()
        work = (work & view.facts.counts) | lines or work
    for n in work:
        for size in blocks:
            count = -(-n // size)
            idle, live = count * size - n, n - (count - 1) * size
            if is_idle:
                allowed |= {idle, -n % WARP, -n % size}
            elif is_live:
                allowed |= {live, n % WARP, n}
            else:
                allowed |= {idle, live, count * size, n, size}
    if is_idle:
        return allowed
    if is_live:
        allowed |= {WARP} if "lane" in window else set()
        allowed |= {n % WARP for n in view.facts.partial} if "lane" in window else set()
        return allowed | (set() if "useful" in window else set(view.facts.partial))
    rows = {n * size for n in _rows(view) for size in (WARP, *blocks)}
    return allowed | set(view.facts.partial) | set(blocks) | rows | {WARP, MOST_THREADS}


def _work(view: View, at: int) -> set[int]:
    """How many elements may be dealt out: those that the sentence names, else those of any tensor."""
    facts = view.facts
    named = {
        int(quantity.value)
        for n, quantity in view.all_figures()
        if n != at and quantity.value.denominator == 1 and WORDS.work.match(view.after(n, 40))
    }
    if named & facts.partial:
        return named & facts.partial
    outputs = {math.prod(fact.shape) for fact in facts.outputs}
    return (
        outputs if re.search(r"\b(?:cover|for|of) the output\b|\bper output\b", view.skeleton) else set(facts.partial)
    )


def _rows(view: View) -> set[int]:
    facts = view.facts
    found = {math.prod(fact.shape[:-1]) for fact in facts.tensors if fact.shape}
    for fact in facts.tensors:
        for operand in facts.operands(fact):
            found |= {math.prod(operand.shape) // n for n in facts.reduced(fact) if n}
    return found


def _lines(view: View) -> set[int]:
    facts = view.facts
    return {n for fact in facts.tensors for n in (*fact.shape[-1:], *facts.reduced(fact))}
