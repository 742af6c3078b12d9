"""Step 5: which threads have no work at these sizes, and which guards follow."""

from math import prod

from musadata.teacher.reasoning.emitted_bounds import bound_kernel
from musadata.teacher.reasoning.kernel_plan import KNOWLEDGE, SCATTERS, Call, CallKind, Stage, adds_to_places, count
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, group_row, is_whole, row_of, titled, unique

_IDENTITY: dict[str, str] = KNOWLEDGE["identities"]
_GUARD = "`if (i < n)`"


def write_boundaries(analysis: TaskAnalysis) -> str:
    if analysis.told:
        texts = {facts.name: text for facts in analysis.told if (text := bound_kernel(facts))}
        parts = titled(texts) if len(analysis.facts) > 1 else list(texts.values())
        return "\n\n".join(parts) or _one_thread(analysis)
    paragraphs = []
    for stage, twin in analysis.distinct:
        sentences = [launch(stage), *_inner(stage), _again(analysis, stage, twin) if twin is not None else ""]
        paragraphs.append(" ".join(sentence for sentence in sentences if sentence))
    if len(paragraphs) > 1:
        paragraphs = [
            f"**`{stage.title}`.** {text}" for (stage, _), text in zip(analysis.distinct, paragraphs, strict=True)
        ]
    text = "\n\n".join(unique(paragraphs or [_grid(count(analysis.outputs[0]))]))
    if _GUARD not in text:
        return text
    return f"{text} {analysis.say('launches')}"  # how the bound looks in other launches


def _one_thread(analysis: TaskAnalysis) -> str:
    return f"`{analysis.outputs[0].name}` is one point in every set of shapes: a second thread may not store it."


def launch(stage: Stage, brief: bool = False) -> str:
    """How many blocks run, how many of their threads work, and the guard that follows; `brief` says only how many."""
    lead = stage.lead
    if lead.kind in (CallKind.SOFTMAX, CallKind.SCAN) and row_of(lead)[2] != 1:
        rows, length, _ = row_of(lead)
        return f"{count(lead.source)} / {length} = {rows} rows. {_grid(rows, brief, 'rows')}"
    if lead.kind is CallKind.REDUCTION and is_whole(lead):
        return _whole(row_of(lead)[1], _IDENTITY.get(lead.packet, "0"), brief)
    if lead.kind is CallKind.REDUCTION and row_of(lead)[2] != 1:
        return _grid(row_of(lead)[0], brief, "results")
    if lead.kind in (CallKind.SOFTMAX, CallKind.SCAN, CallKind.REDUCTION):
        return _rows(lead, brief)
    if adds_to_places(lead):
        return _grid(count(lead.operands[-1]), brief, "values")
    if lead.kind is CallKind.NORMALIZATION:
        groups, length = group_row(lead)
        return f"A group has {count(lead.source)} / {groups} = {length} elements. {_whole(length, '0', brief)}"
    if lead.kind is CallKind.MATMUL and len(lead.output.shape) >= 2:
        return _tiles(lead, brief)
    return _grid(count(stage.output), brief)


def block_size(total: int) -> int:
    """Threads per block for a flat grid: no more warps than there is work for, up to 256."""
    return next((size for size in (32, 64, 128) if total <= size), 256)


def _grid(total: int, brief: bool = False, what: str = "elements") -> str:
    block = block_size(total)
    blocks = -(-total // block)
    if blocks == 1:
        idle = block - total
        guard = "" if brief else f": {_GUARD}"
        spare = f"{block} − {total} = {idle} of them must do nothing{guard}" if idle else "all of them work"
        each = f"1 {what.rstrip('s')} fits" if total == 1 else f"{total} {what}, a thread for each, fit"
        return f"{each} into one block of {block} threads; {spare}."
    facts = {"what": what, "block": block, "total": total, "blocks": blocks, "started": blocks * block}
    text = say("started_threads", **facts)
    last = total - (blocks - 1) * block
    if last == block and brief:
        return f"{text}: each has an element."
    if last == block:
        return f"{text}: each has an element here, and the guard {_GUARD} is for sizes that {block} does not divide."
    left = _rest(total, blocks - 1, block)
    rest = say("last_block", rest=left, block=block, last=last, idle=block - last)
    return f"{text} for {total} {what}. {rest}{'' if brief else f', so {_GUARD} is required'}."


def _rest(total: int, full: int, each: int) -> str:
    """What is left for the last of several blocks or steps, as an equation."""
    taken = str(each) if full == 1 else f"{full} × {each}"
    return f"{total} − {taken} = {total - full * each}"


def _rows(call: Call, brief: bool) -> str:
    rows, length, _ = row_of(call)
    identity = _IDENTITY.get("logsumexp" if call.kind is CallKind.SOFTMAX else call.packet, "0")
    there, counted = ("There is", "1 row") if rows == 1 else ("There are", f"{rows} rows")
    if length >= 32:
        steps = -(-length // 32)
        rest = length - 32 * (steps - 1)
        partly = f"in the last step {_rest(length, steps - 1, 32)} lanes have an element"
        tail = partly if rest < 32 else "every lane has an element in each of them"
        plural = "step" if steps == 1 else "steps"
        row = f"A row of {length} takes ⌈{length} / 32⌉ = {steps} {plural} of a warp; {tail}."
    else:
        row = f"A row of {length} would keep {length} of the 32 lanes of a warp busy."
    if brief:
        return f"{row} {there} {count(call.source)} / {length} = {counted}."
    facts = {"there": there, "total": count(call.source), "length": length, "counted": counted}
    return f"{row} {say('rows_of_warps', identity=identity, **facts)}"


def _whole(length: int, identity: str, brief: bool) -> str:
    if length >= 256:
        steps = -(-length // 256)
        rest = length - 256 * (steps - 1)
        tail = f"the last with {_rest(length, steps - 1, 256)} live threads" if rest < 256 else "all of them full"
        steps_text = f"{length} elements take ⌈{length} / 256⌉ = {steps} rounds of a block of 256 threads, {tail}"
    else:
        steps_text = f"{length} elements leave 256 − {length} = {256 - length} threads of a block of 256 without one"
    return f"{steps_text}." if brief else f"{steps_text}; {say('whole_block', identity=identity)}"


def _tiles(call: Call, brief: bool) -> str:
    rows, columns = call.output.shape[-2:]
    inner = call.contracted
    parts = []
    for size, name in ((rows, "rows"), (columns, "columns")):
        tiles = -(-size // 16)
        rest = size - 16 * (tiles - 1)
        edge = ", one partly outside" if rest < 16 else ""
        if rest < 16 and tiles > 1:
            edge = f", the last of which has {_rest(size, tiles - 1, 16)} inside"
        parts.append(f"⌈{size} / 16⌉ = {tiles} {'tile' if tiles == 1 else 'tiles'} of {name}{edge}")
    steps = -(-inner // 16)
    padded = steps * 16 - inner
    depth = f"the sum over {inner} is {steps} × 16 = {inner} exactly"
    if padded:
        last = "tile, which" if steps == 1 else "tiles, of which the last"
        beyond = say("beyond_the_end", steps=steps, inner=inner, padded=padded)
        depth = f"the sum over {inner} takes ⌈{inner} / 16⌉ = {steps} {last} {beyond}"
    if brief:
        return f"There are {parts[0]} and {parts[1]}; {depth}."
    return say("tiles", rows=parts[0], columns=parts[1], depth=depth)


def _inner(stage: Stage) -> list[str]:
    """Guards inside a thread's work: windows at the border, indices that are loaded."""
    lead, found = stage.lead, []
    pads = [size for size in lead.integers("padding") if size]
    plain = not lead.is_transposed and not lead.packet.lstrip("_").startswith("adaptive")
    if lead.kind in (CallKind.CONVOLUTION, CallKind.POOLING) and lead.source.shape and plain:
        sizes = lead.source.shape[2:]
        plane = f"(`0 <= h_in && h_in < {sizes[0]}`{', likewise for w' if len(sizes) > 1 else ''})" if sizes else ""
        if pads:
            outside = "−inf" if "max" in lead.packet else "0"
            found.append(say("padded_window", pad=pads[0], plane=plane, outside=outside))
        else:
            found.append(f"There is no padding, so no window of {lead.output.shape} reaches over the edge.")
    lookups = [call for call in stage.calls if call.kind is CallKind.LOOKUP]
    for call in [call for call in lookups if any("int" in fact.dtype for fact in call.operands)][:1]:
        access = "store" if call.packet in SCATTERS else "load"
        found.append(say("data_indices", shape=call.source.shape, access=access))
    return found


def _again(analysis: TaskAnalysis, stage: Stage, twin: Stage) -> str:
    first, second = _extent(stage), _extent(twin)
    shape = str(twin.output.shape) if twin.output.shape else "still a single number"
    if first == second:
        return (
            f"On the second set of shapes `{twin.output.name}` is {shape}; the extents that are guarded stay the same."
        )
    total = prod(twin.output.shape)
    vectors = total % 4 and stage.anchor is None
    vector = f" {say('scalar_tail', total=total, rest=total % 4)}" if vectors else ""
    facts = {"made": twin.output.name, "shape": shape, "launch": launch(twin, brief=True)}
    team = stage.lead.kind in (CallKind.REDUCTION, CallKind.SOFTMAX, CallKind.SCAN, CallKind.NORMALIZATION)
    return f"{say('again_of_rows' if team else 'again', **facts)}{vector}"


def _extent(stage: Stage) -> tuple[int, ...]:
    lead = stage.lead
    if lead.kind in (CallKind.REDUCTION, CallKind.SOFTMAX, CallKind.SCAN):
        return row_of(lead)
    if lead.kind is CallKind.NORMALIZATION:
        return group_row(lead)
    return stage.output.shape
