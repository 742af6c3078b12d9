"""Claims that deal things out: how many blocks, tiles, loads or passes a number of things needs, and what is left."""

import math
import re
from collections.abc import Iterator
from fractions import Fraction

from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.context import View
from musadata.teacher.grounding.lexicon import WORDS


def judge_division(view: View) -> Iterator[Claim]:
    """ "203 rows fit into 13 tiles of 16 with 5 rows left over"."""
    if len(view.all_figures()) < 2 or WORDS.loose_share.search(view.skeleton):
        return
    for match in WORDS.shared_out.finditer(view.skeleton):
        count, parts = int(match["count"]), int(match["parts"])
        sizes = _sizes(view, match["things"].rstrip("s"), {count, parts})
        things = view.quantity(count)
        dealt = view.quantity(parts)
        if not sizes or {count, parts} & view.taken or things.value.denominator * dealt.value.denominator != 1:
            continue
        if dealt.value == 1 or (len(dealt.sides) > 1 and not dealt.factors):
            continue
        rounded = {math.ceil(things.value / size) for size in sizes}
        behind = re.match(r"(?:\w+ ){1,3}?and Q", view.after(parts, 40))  # "4 blocks of 128 and 118 threads"
        if behind or WORDS.full.search(match[0]) or WORDS.nothing_left.search(view.skeleton):
            rounded |= {math.floor(things.value / size) for size in sizes}
        if things.factors:  # "387 * 128 outputs need 7 * 2 tiles"
            rounded = {math.prod(math.ceil(Fraction(n, size)) for n in things.factors) for size in sizes}
        view.taken.add(parts)
        holds = any(dealt.is_near(value) for value in rounded)
        yield judged(ClaimKind.GEOMETRY, view.words(parts), holds, "not enough or too many of these")
        yield from _rest(view, int(things.value), sizes)


def _sizes(view: View, things: str, others: set[int]) -> set[int]:
    """How many things one part takes: those of the same kind, if the words say."""
    found = {int(m["size"] or m["size2"]): m["noun"] or m["noun2"] for m in WORDS.per_unit.finditer(view.skeleton)}
    alike = [at for at, noun in found.items() if noun.rstrip("s") == things]
    chosen = set(alike or found) | (
        {int(m["size"] or m["size2"]) for m in WORDS.of_units.finditer(view.skeleton)} if not alike else set()
    )
    sizes = {int(view.quantity(at).value) for at in chosen - others if view.quantity(at).value.denominator == 1}
    sizes |= {side for at, quantity in view.all_figures() if "tile" in view.after(at, 24) for side in quantity.factors}
    return {size for size in sizes | ({4} if WORDS.vector_load.search(view.skeleton) else set()) if size > 0}


def _rest(view: View, things: int, sizes: set[int]) -> Iterator[Claim]:
    rests = {-things % size for size in sizes} | {things % size for size in sizes}
    for match in WORDS.left_over.finditer(view.skeleton):
        at = int(match["rest"])
        if at not in view.taken and view.quantity(at).value.denominator == 1:
            view.taken.add(at)
            holds = any(view.quantity(at).is_near(rest) for rest in rests)
            yield judged(ClaimKind.GEOMETRY, view.words(at), holds, "another number is left over")
    if (nothing := WORDS.nothing_left.search(view.skeleton)) and 0 not in rests:
        yield judged(ClaimKind.GEOMETRY, nothing[0], False, f"{min(rests)} are left over")
