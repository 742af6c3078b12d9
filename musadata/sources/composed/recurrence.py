"""Recurrent networks: one step of a gated recurrence, and loops over time."""

from musadata.sources.composed.builder import Builder
from musadata.sources.composed.snippets import snippet_code

GATES = {"elman": 1, "leaky": 1, "minimal": 2, "gru": 3, "lstm": 4}  # how many hidden sizes wide a step computes
CELLS = {"rnn_cell": ("RNNCell", 1), "gru_cell": ("GRUCell", 3), "lstm_cell": ("LSTMCell", 4)}


def recurrent_cell(builder: Builder) -> None:
    """One step of a gated recurrence, written out."""
    builder.note("cell")
    batch, features, hidden = _start(builder)
    name = builder.pick(["gru", "lstm", "minimal", "leaky"])
    *before, last = _step(builder, name, "x")
    for line in before:
        builder.line(line)
    builder.apply(last.removeprefix("state = "))
    builder.work += batch * hidden * GATES[name] * (features + hidden)


def recurrence(builder: Builder) -> None:
    """A loop over time around a step; the last state, all states or their mean are returned, or read by a head."""
    builder.note("recurrence")
    steps = builder.size([4, 6, 8, 12])
    batch, features, hidden = _start(builder, steps)
    name = builder.pick([*GATES, *CELLS])
    if name in CELLS:
        kind, gates = CELLS[name]
        layer = builder.layer("cell", f"nn.{kind}(input_size, hidden_size)")
        inner = [f"state = {layer}(step, state)"]
        if name == "lstm_cell":
            cell = builder.input("cell", ["batch_size", "hidden_size"])
            inner = [f"state, {cell} = {layer}(step, (state, {cell}))"]
    else:
        inner, gates = _step(builder, name, "step"), GATES[name]
    returned = builder.pick(["last", "all", "mean"])
    if returned != "last":
        builder.line("states = []")
        inner.append("states.append(state)")
    builder.line("for step in x.unbind(dim=1):")
    for line in inner:
        builder.line(f"    {line}")
    form = {"last": "state", "all": "torch.stack(states, dim=1)", "mean": "torch.stack(states).mean(dim=0)"}[returned]
    builder.shape = (batch, steps, hidden) if returned == "all" else (batch, hidden)
    builder.work += steps * batch * hidden * gates * (features + hidden)
    if builder.chance(0.4):
        builder.note("head")
        width = builder.size([10, 20, 32])
        layer = builder.layer("head", f"nn.Linear(hidden_size, {builder.argument('num_classes', width)})")
        form = f"{layer}({form})"
        builder.work += builder.elements * width
        builder.shape = (*builder.shape[:-1], width)
    builder.apply(form)


def _start(builder: Builder, steps: int = 0) -> tuple[int, int, int]:
    """The input, of one step or of several in a row, and the state; their sizes."""
    batch, features, hidden = builder.size([4, 8, 16]), builder.size([24, 32, 48, 64]), builder.size([32, 48, 64])
    rows = builder.constant("batch_size", batch)
    length = [builder.constant("length", steps)] if steps else []
    inner, outer = builder.argument("input_size", features), builder.argument("hidden_size", hidden)
    builder.input("x", [rows, *length, inner])
    builder.input("state", [rows, outer])
    builder.shape = (batch, hidden)
    return batch, features, hidden


def _step(builder: Builder, name: str, value: str) -> list[str]:
    """The statements that take `state` one step on; the last of them assigns it."""
    width = f"{GATES[name]} * hidden_size" if GATES[name] > 1 else "hidden_size"
    ours = theirs = ""
    way = builder.pick(["summed", "joined"]) if name != "gru" else "summed"
    if way == "joined":
        layer = builder.layer("gates" if GATES[name] > 1 else "mix", f"nn.Linear(input_size + hidden_size, {width})")
        total = whole = f"{layer}(torch.cat([{value}, state], dim=-1))"
    else:
        ours = f"{builder.layer('from_input', f'nn.Linear(input_size, {width})')}({value})"
        theirs = f"{builder.layer('from_state', f'nn.Linear(hidden_size, {width})')}(state)"
        total, whole = f"{ours} + {theirs}", f"({ours} + {theirs})"
    return snippet_code(builder, "recurrence", name, total=total, whole=whole, ours=ours, theirs=theirs)
