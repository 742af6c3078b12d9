"""Claims that count elements, sizes of dimensions, ranks, and parts of the trace."""

import math
import re
from collections.abc import Iterable, Iterator

from musadata.records import TensorFact
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.facts import base_name, products, strides_of
from musadata.teacher.grounding.lexicon import LEXICON
from musadata.teacher.grounding.view import View

_ELEMENTS = "|".join(LEXICON["elements"].split())
_DIMENSIONS: dict[str, list[int]] = LEXICON["dimensions"]
_DIMENSION_WORDS = "|".join(sorted(_DIMENSIONS, key=len, reverse=True))
_PER = r"\b(?:per|each|every|apiece|single)\b"
_TOTAL = re.compile(r"\b(?:in total|total|altogether|overall|all|together|entire|whole|combined)\b")
_RANK = r"(?:-? ?d\b|-? ?dimensional|dimensions|axes|dims|-axis)"
_THINGS = (
    r"(?:aten )?(?:operators?|ops|operations dispatched|calls|inputs|outputs|"
    r"parameters|parameter tensors|tensors|intermediates|sets of (?:input )?shapes|"
    r"shape sets)"
)
_OVER = re.compile(
    r"\b(?:over|averages?|averaging|sums?|summing|summed|reduces?|reducing|accumulates?|"
    r"adds? up|divides? by|divided by|dividing by|division by|scaled by 1 /|"
    r"mean of|sum of|maximum of|collapses)(?: together)?(?: the| all| all the)?(?: same)? $"
)
_DIMENSION_IS = re.compile(
    rf"\b(?P<noun>{_DIMENSION_WORDS})(?:(?: (?:size|count|dimension|axis|number|"
    rf"extent|length))+|(?<=height)|(?<=width)|(?<=length)|(?<=depth)|(?= (?!of)))(?: (?:of|"
    rf"is|are|has|=|:|equals|stays|remains|becomes|goes from|shrinks (?:from|"
    rf"to)|grows (?:from|to)|being))+(?: (?:size|length|extent|about|only|just|"
    rf"exactly|fixed|at))* $"
)


_INNER = re.compile(
    r"\b(?:inner|contracted|contraction|common|shared|reduction|k) (?:dimension|"
    r"axis|size|length|extent|dim)(?: of [^Q]{1,40}?)?(?: (?:is|of|=|has|:|equals|"
    r"size|length))+ $"
)


def judge_counts(view: View) -> Iterator[Claim]:
    yield from _rows_of(view)
    for at, quantity in view.open_figures():
        if quantity.value.denominator != 1 and not view.is_approximate(at) and not quantity.options[0][1]:
            continue
        claim = (
            _rank(view, at) or _things(view, at) or _reduced(view, at) or _dimension(view, at) or _elements(view, at)
        )
        if claim:
            view.taken.add(at)
            yield claim


def _rows_of(view: View) -> Iterator[Claim]:
    """ "100 rows of 32 elements": together a tensor."""
    for match in re.finditer(
        (
            r"\bQ(\d+) (?:[a-z]+ )?(?:rows|sums|means|norms|sequences|lines|groups|slices|"
            r"reductions) (?:of|with|over) Q(\d+)(?= (?!threads|rows|blocks))"
        ),
        view.skeleton,
    ):
        one, two = int(match[1]), int(match[2])
        if {one, two} & view.taken:
            continue
        view.taken.update((one, two))
        facts = view.facts
        lengths = {f.shape[-1] for f in facts.tensors if f.shape} | {n for f in facts.tensors for n in facts.reduced(f)}
        lengths |= {n for f in facts.tensors for n in strides_of(f.shape)}
        length, rows = view.quantity(two).value, view.quantity(one).value
        holds = length in lengths and (
            rows * length in facts.counts
            or (int(rows) in facts.partial and any(rows * length == n for n in facts.partial))
        )
        yield judged(
            ClaimKind.COUNT, f"{view.items[one].text} rows of {view.items[two].text}", holds, "no tensor has these rows"
        )


def _rank(view: View, at: int) -> Claim | None:
    after = view.after(at, 24)
    if not re.match(rf"(?:[a-z]+ )?{_RANK}(?: |$)", after) or re.match(
        r"(?:d|-d|dimensional|-dimensional) (?:grid|block|launch|index|thread|conv|pool|tile)", after
    ):
        return None
    if re.search(
        (
            r"\b(?:in|last|first|trailing|leading|inner|outer|innermost|spatial|other|"
            r"remaining|over|both|all|these|those|of the) $"
        ),
        view.before(at, 20),
    ) and not re.search(r"\b(?:all|of the|of) $", view.before(at, 20)):
        return None
    if re.match(r"(?:reduced|kept|leading|trailing|spatial|outer|inner|batch|of|remaining|last)\b", after):
        return None
    subject = view.subject(at)
    chosen = subject.facts if subject else view.facts.tensors
    ranks = {len(fact.shape) for fact in chosen}
    return judged(ClaimKind.DIMENSION, view.words(at), view.holds(at, ranks), "not the number of dimensions")


def _things(view: View, at: int) -> Claim | None:
    """Counts of operators, inputs, outputs and parameters."""
    match = re.match(rf"(?:[a-z-]+ )?(?P<noun>{_THINGS})\b", view.after(at, 40))
    if match is None or (re.search(_PER, view.before(at, 30)) and view.quantity(at).value < 2):
        return None
    noun, facts = match["noun"], view.facts
    before = view.before(at, 30)
    if (
        re.search(r"\b(?:the|first|last|other|these|those|both|all|any|only|of|all of the) $", before)
        and "operators" not in noun
    ):
        return None
    adjective = view.after(at, 40).split(noun)[0].strip()
    if (
        adjective
        in (
            "output",
            "input",
            "live",
            "learned",
            "learnable",
            "trainable",
            "scalar",
            "adjacent",
            "more",
            "fewer",
            "extra",
        )
        and noun != "parameters"
    ):
        return None
    if view.quantity(at).value > 60 and ("parameter" in noun or noun in ("outputs", "inputs")):
        return None  # elements
    inputs, outputs = facts.of_role("input"), facts.outputs
    parameters = facts.of_role("parameter")
    allowed: set[int] = set()
    if "operator" in noun or noun in ("ops", "aten calls", "operations dispatched"):
        names = [base_name(operator) for operator in facts.trace.operators]
        moving = {
            "view",
            "t",
            "transpose",
            "unsqueeze",
            "squeeze",
            "expand",
            "_unsafe_view",
            "permute",
            "detach",
            "alias",
            "clone",
        }
        computing = [name for name in names if name not in moving]
        allowed = {len(names), len(set(names)), len(computing), len(set(computing))}
        if adjective:
            allowed |= set(range(1, len(names) + 1))
    elif noun == "calls":
        allowed = set(range(1, len(facts.trace.operators) + 1))
    elif noun == "inputs":
        allowed = {len(inputs), len(facts.trace.inputs), len(inputs) + len(parameters)} | {
            len(f.operands) for f in facts.tensors
        }
    elif noun == "outputs":
        allowed = {len(outputs)} | set(facts.counts)
    elif "parameter" in noun:
        allowed = {len(parameters), sum(math.prod(f.shape) for f in parameters)} | {
            math.prod(f.shape) for f in parameters
        }
    elif noun == "intermediates":
        allowed = {len(facts.of_role("intermediate"))}
    elif noun == "tensors":
        allowed = set(range(1, len(facts.tensors) + 1)) | set(facts.sizes)
    else:
        return None
    return judged(ClaimKind.COUNT, view.words(at), view.holds(at, allowed), f"not the number of {noun}")


def _reduced(view: View, at: int) -> Claim | None:
    """How many elements one result is made of."""
    after = view.after(at, 60)
    over = _OVER.search(view.before(at, 60))
    terms = view.noun(at, r"(?:terms|summands|addends|additions)")
    if not over and not terms:
        return None
    if over and not (view.noun(at, _ELEMENTS) or re.match(r"(?:[,.)]|$|per |with|because|and |, )", after)):
        return None
    facts = view.facts
    mention = view.subject(at)
    named = [fact for m in view.subjects.mentions for fact in m.facts if fact.operator]
    chosen = named if mention and (mention.by_operator or mention.facts[0].operator) else facts.tensors
    allowed = {n for fact in chosen for n in facts.reduced(fact)} | {facts.depth(fact) for fact in chosen}
    if not allowed - {0}:
        operands = [f for fact in chosen for f in facts.operands(fact)]
        allowed = (
            {math.prod(f.shape) for f in operands}
            | {n for fact in facts.tensors for n in facts.reduced(fact)}
            | {facts.depth(fact) for fact in facts.tensors}
        )
    windows = {facts.window(fact) for fact in facts.tensors}
    if over and "divi" in over[0]:
        allowed |= facts.arguments | facts.sizes
    if terms:
        allowed |= {n for fact in facts.tensors for n in facts.reduced(fact)} | {
            facts.depth(fact) for fact in facts.tensors
        }
    if not mention:
        allowed |= facts.partial if over else facts.counts
    return judged(ClaimKind.COUNT, view.words(at), view.holds(at, allowed | windows), "not what goes into one result")


def _dimension(view: View, at: int) -> Claim | None:
    """Sizes of dimensions that have a name or a number."""
    facts, after = view.facts, view.after(at, 60)
    if _INNER.search(view.before(at, 80)):
        depths = {facts.depth(fact) for fact in facts.tensors} | {
            n for fact in facts.tensors for n in facts.reduced(fact)
        }
        return judged(ClaimKind.SHAPE, view.words(at), view.holds(at, depths - {0}), "not the inner dimension")
    named = _DIMENSION_IS.search(view.before(at, 80))
    behind = view.noun(at, _DIMENSION_WORDS)
    axis = re.search(
        (
            r"\b(?:dim|axis|dimension) (?:Q(?P<axis>\d+))(?: \))?(?: (?:of|in) (?:the )?(?:T\d+|"
            r"[a-z]+))?(?: (?:has|is|of|with|holds|spans|contains|covers|runs over|=|"
            r":|,|are|size|length|extent|the))* $"
        ),
        view.before(at, 80),
    )
    if axis and axis["axis"]:
        number = int(view.quantity(int(axis["axis"])).value)
        view.taken.add(int(axis["axis"]))
        if not view.noun(at, f"{_ELEMENTS}|steps?") and re.match(
            r"(?:[a-z]+ )?(?:apart|bytes|flops|threads|blocks)", after
        ):
            return None
        chosen = view.subject_facts(at) or facts.tensors
        sizes = {fact.shape[number] for fact in chosen if -len(fact.shape) <= number < len(fact.shape)}
        strides = {fact.stride[number] for fact in chosen if -len(fact.shape) <= number < len(fact.shape)}
        is_stride = re.search(r"\bstride|apart|\bstep", view.before(at, 40) + after)
        return judged(
            ClaimKind.SHAPE,
            view.words(at),
            view.holds(at, strides if is_stride else sizes | strides),
            f"not the size of axis {number}",
        )
    counts = r"(?:threads|blocks|bytes|flops|elements|values|entries|floats|results|apart)"
    if named and not re.match(counts, after) and not re.search(r"\b(?:per|each|every) [a-z]+ : $", view.before(at, 30)):
        return _sized(view, at, named["noun"])
    if (
        behind
        and not re.match(r" (?:stride|index|axis)", after[behind.end() :])
        and not (view.quantity(at).value == 1 and not behind["noun"].endswith("s"))
    ):
        return _sized(view, at, behind["noun"])
    return None


def _sized(view: View, at: int, noun: str) -> Claim:
    facts = view.facts
    axes = _DIMENSIONS[noun]
    subject = view.subject(at)
    chosen = subject.facts if subject else facts.tensors
    if (
        subject
        and subject.by_operator
        and re.search(r"\b(?:inner|contracted|common|shared|reduction) ", view.before(at, 60))
    ):
        depths = {facts.depth(fact) for fact in chosen}
        return judged(ClaimKind.SHAPE, view.words(at), view.holds(at, depths), "not the inner dimension")
    allowed: set[int] = set()
    for fact in chosen:
        allowed.update(fact.shape[axis] for axis in axes if -len(fact.shape) <= axis < len(fact.shape))
        if noun in (
            "rows",
            "row",
            "positions",
            "tokens",
            "samples",
            "sequences",
            "heads",
            "planes",
            "images",
            "batches",
        ):
            allowed.update(math.prod(fact.shape[:axis]) for axis in range(1, len(fact.shape) + 1))
            allowed.update(math.prod(fact.shape[axis:]) for axis in range(len(fact.shape))[-2:] if noun == "row")
            allowed.update(math.prod(fact.shape[axis:-1]) for axis in range(len(fact.shape)))
            allowed |= {math.prod(fact.shape) // n for n in facts.reduced(fact) if n}
        if noun in ("channels", "channel", "features", "heads"):
            allowed.update(facts.argument([fact], "(?:groups|C|normalized_shape)"))
        if noun in ("channels", "planes", "heads") and not subject:
            allowed |= facts.arguments
        if noun in ("columns", "column", "features", "width"):
            allowed.update(math.prod(fact.shape[axis:]) for axis in range(1, len(fact.shape)))
    if not subject and noun in ("rows", "row"):
        allowed |= {
            math.prod(f.shape) // n
            for fact in facts.tensors
            for f in facts.operands(fact)
            for n in facts.reduced(fact)
            if n
        }
    if noun == "classes":
        allowed |= {math.prod(fact.shape) for fact in chosen}
    if noun == "rows" and view.is_derived(at, facts.partial):
        allowed.add(int(view.quantity(at).value))
    return judged(
        ClaimKind.SHAPE, view.words(at), view.holds(at, allowed), f"not the size of such a dimension ({noun})"
    )


def _elements(view: View, at: int) -> Claim | None:
    match = view.noun(at, _ELEMENTS)
    if match is None or view.quantity(at).value == 1:
        return None
    noun, facts = match["noun"], view.facts
    after = view.after(at, 80)
    rest = after[match.end("noun") :]
    window = view.before(at, 50) + "# " + rest[:40]
    if re.match(r" (?:apart|away|further|later|ahead|past|between)\b", rest) or re.search(
        (
            r"\b(?:skips?|jumps?|strides? of|step of|moves?(?: by)?|advances?(?: by)?|"
            r"distance of|every|offset(?: of| by)?) $"
        ),
        view.before(at, 40),
    ):
        return None  # a stride
    if re.match(r" (?:per|for each|by each|for every|to each|a) (?:thread|lane|warp|block)", rest) or re.search(
        r"\b(?:thread|lane|warp|block|tile|vector|float4|load|transaction|tiles|threads)s? ", view.before(at, 40)
    ):
        return _of_thread(view, at)
    subject = view.subject(at)
    chosen = subject.facts if subject else facts.tensors
    adjective = after[: match.start("noun")]
    if re.search(r"\b(?:output|result) ", adjective) or noun in ("outputs", "output"):
        chosen = facts.outputs
    elif re.search(r"\b(?:input) ", adjective):
        chosen = facts.of_role("input")
    elif noun in ("parameters", "parameter", "weights"):
        return _parameters(view, at)
    if re.search(r"\b(?:float|fp)", noun):
        chosen = tuple(fact for fact in chosen if "float" in fact.dtype) or chosen
    batch = re.search(
        r"\b(?:each|every|per|one|a single) (?:sample|image|batch|batch element|item)\b", window.rpartition(" : ")[2]
    )
    part_of = re.search(r"\b(?:takes?|reads?|needs?|visits?) $", view.before(at, 20)) and re.match(
        r" (?:of|from) ", rest
    )
    if batch:
        allowed = {math.prod(fact.shape[1:]) for fact in chosen}
    elif (
        part_of
        or re.search(_PER, window)
        or re.search(
            (
                r"\b(?:a|one|the) (?:[a-z]+ )?(?:row|column|channel|plane|head|group|window|"
                r"slice|line|image|matrix|kernel|filter)\b"
            ),
            window,
        )
    ):
        allowed = _partial(view, chosen) | {n for fact in facts.tensors for n in facts.reduced(fact)}
        if view.is_derived(at, facts.sizes):
            allowed.add(int(view.quantity(at).value))
    elif _TOTAL.search(window):
        allowed = {math.prod(fact.shape) for fact in chosen}
        allowed |= {sum(allowed)} if len(chosen) > 1 else set()
    elif subject or chosen is facts.outputs:
        allowed = {math.prod(fact.shape) for fact in chosen}
        if subject and subject.by_operator:
            operands = [f for fact in chosen for f in facts.operands(fact)]
            allowed |= {math.prod(f.shape) for f in operands} | {n for fact in chosen for n in facts.reduced(fact)}
        if (
            re.search(r"\b(?:rows?|columns?|axis|dim|groups?|channels?|last|along|blocks?|windows?) ", window)
            or view.quantity(at).value <= 16
        ):
            allowed |= _partial(view, chosen)
    else:
        allowed = set(facts.partial) | facts.arguments | {n for fact in facts.tensors for n in facts.reduced(fact)}
    return judged(ClaimKind.COUNT, view.words(at), view.holds(at, allowed), "not the number of elements")


def _partial(view: View, chosen: Iterable[TensorFact]) -> set[int]:
    found = {number for fact in chosen for number in products(fact.shape)}
    return found | {step for fact in chosen for step in strides_of(fact.shape)}


def _parameters(view: View, at: int) -> Claim:
    facts = view.facts
    learned = facts.of_role("parameter", "buffer") or facts.tensors
    named = view.subject_facts(at)
    sizes = {math.prod(fact.shape) for fact in (named or learned)} | {
        math.prod(fact.shape) for fact in learned if not named
    }
    total = {sum(math.prod(fact.shape) for fact in learned)}
    return judged(ClaimKind.COUNT, view.words(at), view.holds(at, sizes | total), "not the number of parameters")


def _of_thread(view: View, at: int) -> Claim | None:
    """What one thread or block takes: a choice, unless it is a row."""
    if view.quantity(at).value in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        view.taken.add(at)
    return None
