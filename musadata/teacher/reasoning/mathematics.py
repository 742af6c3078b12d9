"""Step 2: the formula of one output element, and the precision in which it is accumulated."""

import re
from collections.abc import Mapping

from musadata.operators import DEFAULTS, column
from musadata.teacher.reasoning.element_origins import (
    element_of,
    indexed_places,
    nearest_places,
    origin_of,
)
from musadata.teacher.reasoning.kernel_plan import SCATTERS, Call, CallKind, Stage, by_kind
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import (
    TaskAnalysis,
    group_row,
    is_whole,
    join,
    row_of,
    unique,
)
from musadata.teacher.reasoning.windows import convolution_formula, pooling_formula

_FORMULAS: dict[str, str] = column("formula")
_LOSSES: dict[str, str] = column("loss")
_LOOPS: dict[str, str] = column("loop")
_ROW_LOSSES: dict[str, str] = column("row_loss")
_REDUCTIONS: dict[str, str] = column("reduction")
_LONGEST = 150
_MOST_REPETITIONS = 3
_MOST_PARTS = 6  # of a concatenation
_MANY_ALIKE = 7  # formulas; of fewer, another formula may need each
_NAME = re.compile(r"\b[a-z_]\w*\b(?!\()|\d+")


def write_mathematics(analysis: TaskAnalysis) -> str:
    paragraphs = []
    constants = dict(filter(None, map(_constant, analysis.calls)))
    for stage, _ in analysis.distinct:
        lines = _formulas_of(stage)
        if not lines:
            continue
        heading = [f"For `{stage.output.name}`:", ""] if len(analysis.distinct) > 1 else []
        lines = [_compose(stage)] if _compose(stage) else _with_what_follows(stage, unique(lines))
        lines = [_with_constants(line, constants) for line in lines]
        paragraphs.append("\n".join([*heading, *(f"- {line}" for line in lines)]))
    for again, first in analysis.repeated[:_MOST_REPETITIONS]:
        if _unnamed(again) == _unnamed(first):
            paragraphs.append(_repetition(again, first))
        else:  # the same operators with another stride, window or number
            lines = [_with_constants(line, constants) for line in _formulas_of(again)]
            paragraphs.append("\n".join([f"For `{again.output.name}`:", "", *(f"- {line}" for line in lines)]))
    if not paragraphs:
        copies = [facts for facts in analysis.told if facts.copies and len(facts.reads) == 1]
        moves = [f"`{facts.element(facts.writes[0])} = {facts.element(facts.reads[0])}`" for facts in copies]
        told = [text for text in moves if len(text) <= _LONGEST and " * " not in text]
        paragraphs.append(say("copied", moves=join(told)) if told else say("unchanged"))
    return "\n\n".join([*paragraphs, *_precision(analysis)])


def _formulas_of(stage: Stage) -> list[str]:
    made = [call for call in stage.calls if call.kind is not CallKind.FILL] or stage.calls
    return unique(_without_repetition([line for line in map(formula_of, made) if line]))


def _unnamed(stage: Stage) -> list[str]:
    """The formulas of a stage without the names of its tensors."""
    return [re.sub(r"\b[a-z_]\w*\b(?!\()", "", line) for line in _formulas_of(stage)]


def _constant(call: Call) -> tuple[str, str] | None:
    """The name of a tensor that is one number everywhere, and the number."""
    if call.kind is not CallKind.FILL:
        return None
    packet = call.packet.removeprefix("new_").removesuffix("_like")
    value = {"zeros": "0", "ones": "1", "full": call.argument("fill_value")}.get(packet, "")
    return (call.output.name, value) if value else None


def _with_constants(line: str, constants: Mapping[str, str]) -> str:
    """A formula with the numbers that fill tensors instead of these tensors' names."""
    for name, value in constants.items():
        line = re.sub(rf"(?<![`\w.]){re.escape(name)}(?![\w.`\[])", value, line)
    return line


def _without_repetition(lines: list[str]) -> list[str]:
    """Formulas; of those that differ in names alone, as those of time steps do, the first with their number."""
    alike: dict[str, list[str]] = {}
    for line in unique(lines):
        alike.setdefault(_NAME.sub("", line), []).append(line)
    few = {line for some in alike.values() for line in (some if len(some) < _MANY_ALIKE else some[:1])}
    more = [f"{len(some) - 1} like `{some[0].split('`')[1]}`" for some in alike.values() if len(some) >= _MANY_ALIKE]
    again = [f"and, of other tensors, {join(more)}"] if more else []
    return [*(line for line in unique(lines) if line in few), *again]


def _repetition(again: Stage, first: Stage) -> str:
    made = {fact.name for call in again.calls for fact in call.outputs}
    reads = unique([f"`{fact.name}`" for call in again.calls for fact in call.operands if fact.name not in made])
    return f"`{again.output.name}` is made in the same way as `{first.output.name}`, from {join(reads)}."


def formula_of(call: Call) -> str:
    """One element of a call's result, as a formula with its name; empty for views of the whole of a tensor."""
    if call.kind is CallKind.VIEW:
        origin = origin_of(call) if call.packet == "slice" else ""
        return f"`{element_of(call)} = {origin}`" if origin else ""
    writer = _WRITERS.get(call.kind)
    if writer is not None:
        return writer(call)
    return f"{_result(call)} = {elementwise(call, call.names)}"


def elementwise(call: Call, operands: list[str]) -> str:
    """The formula of an elementwise call with the given texts as its operands."""
    if call.packet == "gelu" and "tanh" in call.argument("approximate"):
        return f"0.5·{operands[0]}·(1 + tanh(√(2.0 / π)·({operands[0]} + 0.044715·{operands[0]}³)))"
    if call.packet == "pow" and call.argument("exponent") in ("2", "2.0"):
        return f"{operands[0]}·{operands[0]}"
    if call.packet == "_to_copy":
        return f"({call.argument('dtype', call.output.dtype)}) {operands[0] if operands else ''}".strip()
    template = _template(call)
    if template is None:
        inner = ", ".join([*operands, *([call.arguments] if call.arguments else [])])
        return f"{call.packet}({inner})"
    return _filled(template, call, operands)


def _filled(template: str, call: Call, operands: list[str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: _operand_or_argument(match[1], call, operands), template)


def _template(call: Call) -> str | None:
    """The formula of one element, by the arguments that change its form."""
    alpha = call.argument("alpha", "1")
    if call.packet == "clamp" and len(call.operands) < 2 and not (call.argument("min") and call.argument("max")):
        return _FORMULAS["clamp_min" if call.argument("min") else "clamp_max"]
    if call.packet in ("add", "sub") and call.argument("other") in ("0", "0.0"):
        return "{0}"
    if call.packet in ("add", "sub") and alpha not in ("1", "1.0"):
        return "{0} + {alpha}·{1}" if call.packet == "add" else "{0} − {alpha}·{1}"
    if call.packet == "elu" and call.argument("scale"):
        return "{scale}·({0} > 0 ? {0} : {alpha}·(exp({0}) − 1))"
    if call.packet == "softplus" and call.argument("beta"):
        return "log(1 + exp({beta}·{0})) / {beta}"
    return _LOSSES.get(call.packet) or _FORMULAS.get(call.packet)


def _operand_or_argument(key: str, call: Call, operands: list[str]) -> str:
    if key in ("min", "max") and not call.argument(key) and len(operands) > 1:
        return operands[1]  # clamp_min.Tensor and its like
    if not key.isdigit():
        return call.argument(key) or DEFAULTS.get(key, key)
    scalar = call.argument("other") or call.argument("exponent")
    if int(key) == 1 and scalar:
        return scalar
    if int(key) == 0 and call.argument("self"):
        return call.argument("self")
    position = int(key) if not call.argument("self") else int(key) - 1
    return operands[min(position, len(operands) - 1)] if operands else "0"


def _compose(stage: Stage) -> str:
    """The whole elementwise stage as one formula, where that is short enough to read."""
    if stage.anchor is not None or len([call for call in stage.calls if call.kind is CallKind.ELEMENTWISE]) < 2:
        return ""
    texts: dict[str, str] = {}
    for call in stage.calls:
        if call.kind is not CallKind.ELEMENTWISE:
            return ""
        operands = [texts.get(fact.name, fact.name) for fact in call.operands]
        texts[call.output.name] = elementwise(call, [_wrap(text) for text in operands])
    whole = texts[stage.output.name]
    return f"`{stage.output.name} = {whole}`" if len(whole) <= _LONGEST else ""


def _with_what_follows(stage: Stage, lines: list[str]) -> list[str]:
    """The formulas of a stage; what it does with each result of its loop stands beside that, as one formula."""
    if stage.anchor is None or stage.anchor not in stage.calls:
        return lines
    after = [c for c in stage.calls[stage.calls.index(stage.anchor) + 1 :] if c.kind is not CallKind.VIEW]
    made, texts = formula_of(stage.anchor), dict[str, str]()
    if not after or any(call.kind is not CallKind.ELEMENTWISE for call in after) or made not in lines:
        return lines
    for call in after:
        operands = [texts.get(fact.name, fact.name) for fact in call.operands]
        texts[call.output.name] = elementwise(call, [_wrap(text) for text in operands])
    whole = f"{made}; then `{after[-1].output.name}` = {texts[after[-1].output.name]}"
    own = {formula_of(call) for call in after}
    return [whole if line == made else line for line in lines if line not in own] if len(whole) <= _LONGEST else lines


def _wrap(text: str) -> str:
    return f"({text})" if " " in text or text.startswith("−") else text


def _result(call: Call) -> str:
    return f"`{call.output.name}`"


def _reduction(call: Call) -> str:
    name, source = _result(call), call.source.name
    _, length, _ = row_of(call)
    over = f"over all {length} elements" if is_whole(call) else f"over the {length} elements that share the kept axes"
    if call.is_class_loss:
        return _class_loss(call)
    if call.packet in _ROW_LOSSES:
        term = _filled(_ROW_LOSSES[call.packet], call, call.names)
        how = {"2": "the sum over all rows of", "0": "for every row"}.get(
            call.argument("reduction"), "the mean over all rows of"
        )
        return f"{name} = {how} {term}"
    if call.packet in _LOSSES:
        term = _loss_of_one(call)
        total = f"Σ {term}" if call.argument("reduction") == "2" else f"(Σ {term}) / {length}"
        return f"{name} = {total}, {over}"
    formula = _REDUCTIONS.get(call.packet, f"{call.packet}({', '.join(call.names)})")
    if call.packet in ("linalg_vector_norm", "norm"):
        formula = _norm(source, call.argument("ord" if call.packet != "norm" else "p", "2"))
    return f"{name} = {formula.format(x=source, n=length, correction=call.argument('correction', '1'))}, {over}"


def _loss_of_one(call: Call) -> str:
    """What one element adds to a loss, with its weight where there is one."""
    operands = call.names
    if len(operands) > 2 and operands[2].endswith("pos_weight"):
        x, y, weight = operands[:3]
        return f"((1 − {y})·{x} + (1 + ({weight} − 1)·{y})·(log(1 + exp(−|{x}|)) + max(−{x}, 0)))"
    term = elementwise(call, operands)
    return f"{operands[2]}·({term})" if len(operands) > 2 else term


def _class_loss(call: Call) -> str:
    """A negative log-likelihood: of every row, the one element that its class selects."""
    target = call.operands[1].name if len(call.operands) > 1 else "target"
    picked = f"{call.source.name}[row, {target}[row]]"
    if len(call.operands) > 2:
        picked = f"{call.operands[2].name}[{target}[row]]·{picked}"
    total, rows = f"−(Σ {picked})", "rows" if len(call.operands) < 3 else "the sum of those weights"
    formula = {"0": f"−{picked}", "2": total}.get(call.argument("reduction"), f"{total} / {rows}")
    return f"{_result(call)} = {formula}: of every row, the one element that its class selects"


def _norm(source: str, order: str) -> str:
    known = {"2": f"√(Σ {source}·{source})", "1": f"Σ |{source}|", "inf": f"max |{source}|"}
    return known.get(order.removesuffix(".0"), f"(Σ |{source}|^p)^(1/p) with p = {order}")


def _softmax(call: Call) -> str:
    name, source = _result(call), call.source.name
    _, length, _ = row_of(call)
    if call.packet == "_log_softmax":
        formula = f"({source}[j] − m) − log(Σ exp({source}[k] − m))"
    else:
        formula = f"exp({source}[j] − m) / Σ exp({source}[k] − m)"
    return f"{name}[j] = {formula}, m = max {source}[k], with k over the {length} elements of the row of j"


def _normalization(call: Call) -> str:
    name, source = _result(call), call.source.name
    _, length = group_row(call)
    eps = call.argument("eps", "eps")
    weights = [fact.name for fact in call.operands[1:]]
    scale = "".join(f"·{weight}" for weight in weights if weight.endswith("weight"))
    shift = "".join(f" + {bias}" for bias in weights if bias.endswith("bias"))
    if call.argument("training") == "False":
        return f"{name} = ({source} − running mean) / √(running variance + {eps}){scale}{shift}, per channel"
    where = say("normalised", source=source, length=length)
    return f"{name} = ({source} − μ) / √(σ² + {eps}){scale}{shift}, {where}"


def _matmul(call: Call) -> str:
    name, operands = _result(call), call.names
    inner = call.contracted
    left, right = operands[-2:] if len(operands) > 1 else (operands[0], operands[0])
    bias = f"{operands[0]}[n] + " if call.packet in ("addmm", "baddbmm", "addmv") and len(operands) > 2 else ""
    batch = "b, " if call.packet in ("bmm", "baddbmm") else ""
    return f"{name}[{batch}m, n] = {bias}Σ {left}[{batch}m, k]·{right}[{batch}k, n], k over {inner}"


def _convolution(call: Call) -> str:
    return convolution_formula(call)


def _pooling(call: Call) -> str:
    return pooling_formula(call)


def _scan(call: Call) -> str:
    sign = {"cumsum": "Σ", "cumprod": "Π", "cummax": "max", "cummin": "min"}.get(call.packet, "accumulation")
    return f"{_result(call)}[j] = {sign} {call.source.name}[k] for k <= j along the axis"


def _lookup(call: Call) -> str:
    result, names = _result(call), call.names
    if call.packet == "embedding":
        return f"{result}[…, d] = {names[0]}[{names[-1]}[…], d]"
    if call.packet.startswith("upsample"):
        return nearest_places(call)
    if places := indexed_places(call):
        return places
    if call.packet in SCATTERS and len(names) > 2:
        written = f"with {names[-1]} added at" if call.packet.endswith("_add") else f"but {names[-1]} at"
        return f"{result} = {names[0]}, {written} the places that {names[1]} holds"
    return f"{result} = {names[0]} read at the places that {names[-1]} holds"


def _placement(call: Call) -> str:
    """Where the elements of a result come from; empty for a copy in the same order."""
    if call.packet in ("clone", "copy", "contiguous") and call.source.shape == call.output.shape:
        return ""
    origin = origin_of(call)
    if origin:
        return f"`{element_of(call)} = {origin}`"
    if "_pad" in call.packet and (pads := call.argument("pad") or call.argument("padding")):
        if call.packet.startswith(("reflection", "replication")):
            return _border(call)
        beyond = call.argument("value", "0") or "0"
        return f"{_result(call)} is {call.source.name} inside of the padding {pads} and {beyond} in it"
    return _concatenation(call) or f"{_result(call)} = {call.packet}({', '.join(call.names)})"


def _border(call: Call) -> str:
    """Where a padding that repeats or mirrors its input reads, axis by axis."""
    pads, shape = call.integers("padding") or call.integers("pad") or (), call.source.shape
    places = []
    for back, before in enumerate(pads[::2]):
        axis = len(shape) - 1 - back
        inside = f"min(max(j − {before}, 0), {shape[axis]} − 1)"
        if call.packet.startswith("reflection"):
            inside = f"min(|j − {before}|, 2 · ({shape[axis]} − 1) − |j − {before}|)"
        places.append(f"`{inside}` along axis {axis}")
    return f"{_result(call)} at place j reads {call.source.name} at {join(places[::-1])}"


def _concatenation(call: Call) -> str:
    """Which operand each part of a concatenation is."""
    if call.packet != "cat" or not 1 < len(call.operands) <= _MOST_PARTS or not call.output.shape:
        return ""
    axis = (call.integers("dim") or (0,))[0] % len(call.output.shape)
    parts = [f"{fact.shape[axis]} of {fact.name}" for fact in call.operands]
    return f"{_result(call)} along axis {axis}: {', then '.join(parts)}"


def _fill(call: Call) -> str:
    """Empty for memory that other calls fill."""
    return "" if "empty" in call.packet else f"{_result(call)} is a constant tensor ({call.packet})"


def _other(call: Call) -> str:
    result, operands = _result(call), call.names
    names = ", ".join(operands)
    if call.packet in _LOOPS:
        falls = call.argument("largest", "True") if call.packet == "topk" else call.argument("descending")
        order = "largest" if falls == "True" else "smallest"
        combined = {"1": "mean", "2": "max"}.get(call.argument("mode"), "sum")
        template = _LOOPS[call.packet].replace("{order}", order).replace("{combined}", combined)
        return f"{result}{_filled(template, call, operands)}"
    if call.packet.startswith("_scaled_dot_product"):
        return f"{result} = {_attention(call)}"
    return f"{result} = {call.packet}({names})"


def _attention(call: Call) -> str:
    """softmax(q·kᵀ / √d + mask)·v, by the call's own mask and scale."""
    query, key, value, *masks = call.names
    given = call.argument("scale", "None")
    scale = f"·{given}" if given != "None" else f" / √{call.source.shape[-1]}"
    mask = f" + {masks[0]}" if masks else ""
    causal = "; query i sees the keys up to i" if call.argument("is_causal") == "True" else ""
    return f"softmax(q·kᵀ{scale}{mask})·v with q, k, v = {query}, {key}, {value}, row by row of q{causal}"


_WRITERS = by_kind(
    *(_reduction, _softmax, _normalization, _matmul, _convolution),
    *(_pooling, _scan, _lookup, _placement, _fill, _other),
)


def _precision(analysis: TaskAnalysis) -> list[str]:
    """How half types are computed; empty where there are none."""
    dtype = analysis.outputs[0].dtype
    is_half = dtype in ("float16", "bfloat16")
    return [f"The result is {dtype}. Load as {dtype}, compute in float, round once at the store."] if is_half else []
