"""Guesses at inputs if no example shows any: shapes, likeliest first, by the text of the module."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from musadata.mining.arguments.attempts import Draw, integers
from musadata.mining.reading.options import find_options

INTEGER_NAMES = re.compile(
    r"(^|_)(ids?|idx|index|indices|tokens?|labels?|token_ids|input_ids|timesteps?|captions?)($|_)"
    r"(?!\w*(emb|embeds?|embeddings?|embedded|feats?|features?|states?|hidden)(_|$))"
)
TARGET_NAMES = re.compile(r"target|label|gt|y_true|truth")
MASK_NAMES = re.compile(r"mask")
COUNTER_NAMES = re.compile(r"^(cur(rent)?_|global_|n_)?(epoch|step|iter|iteration|epoch_num)$")
LENGTHS_NAMES = re.compile(r"^(\w+_)?(lens?|lengths?)(_\w+)?$|^(words|sentences|tokens)_per_")
ADJACENCY_NAMES = re.compile(r"^adj|adjacency|_adj$|laplacian")
RANK_WORDS = ((4, r"2d\b|2D\b|pixel_shuffle|interpolate"), (3, r"1d\b|1D\b"), (5, r"3d\b|3D\b"))
FLAT_WORDS = re.compile(r"nn\.Linear|LayerNorm|bmm|attention|Embedding|F\.linear")
CHANNEL_NAMES = re.compile(
    r"^(in|input|c_in|n?inp?|enc_in)_?(ch|chans?|channels?|nc|planes?|features?|feats?|dims?|size)?$|^(n_|num_)?in_?ch"
    r"|^(channels?|planes?|d_?model|embed_dim|n_embd|dim|nc|ch|chn|n_channels|hidden_size|emb_dim|feat_dim|d_in|c_in)$"
)
SIDE_NAMES = re.compile(
    r"^(img|image|im|input|feat|feature|crop|spatial|frame)s?_?(size|res|resolution|shape|hw|dims?)$"
    r"|^(input_)?(resolution|size|height|h)$|^(img|image|in)_(h|height|w|width)$"
)
PAIR_NAMES = re.compile(r"size|shape|resolution|_hw$")  # of sides, if there are two
COUNT_NAMES = re.compile(
    r"class|vocab|(^|_)n_?out|num_outputs|output_dim|max_|block|layers|depth|heads|stages"
)  # of what comes out, or is counted
LENGTH_NAMES = re.compile(
    r"seq_?len|n_tokens|num_patches|context_length|^block_size$|^length$|^window$|(?:^|_)timesteps$"
)
MAX_INPUTS = 12
FEW_CLASSES = 16  # there are at least as many, whatever their number is guessed to be
GRID = (4, 6)  # sides of an image whose pixels are a sequence
GRID_NAMES = re.compile(r"^(x_|input_|img_|image_|patch_|spatial_)?(size|hw|hw_shape|resolution|grid_size)$")
MAX_SIDE, MAX_LENGTH, MAX_UNIFORM = 256, 512, 32
UNPACKED = re.compile(r"^\s*\(?((?:\w+,\s*)+\w+)\)?\s*=\s*(\w+)\.(?:shape|size\(\))\s*$", re.MULTILINE)


def guess_inputs(
    init: tuple[str, ...], signature: inspect.Signature, forward: inspect.Signature, source: str
) -> list[tuple[Draw, ...]]:
    """Lists of inputs, likeliest first, for the parameters of `forward` that have no default."""
    parameters = list(forward.parameters.values())
    required = [item for item in parameters if item.default is inspect.Parameter.empty and item.kind <= 1]
    if not required:
        required = [item for item in parameters if item.kind <= 2][:1]
    if not required or len(required) > MAX_INPUTS:
        return []
    sizes = _sizes(init, signature)
    width = sizes.width
    required_draws = [
        plain_input(item) or _option(item.name, source) or (_side(item) if place else None)
        for place, item in enumerate(required)
    ]
    lists: list[tuple[Draw, ...]] = []
    shapes = [shape for rank in _ranks(source, required[0].name) for shape in _shapes(rank, sizes)]
    if any(map(_is_side, required[1:])):
        shapes = [(3, GRID[0] * GRID[1], width), (3, 1 + GRID[0] * GRID[1], width), (3, width, *GRID), *shapes]
    for shape in [*shapes, *((width,) * rank for rank in (4, 3, 2) if width <= MAX_UNIFORM)]:
        lists.append(
            tuple(
                plain or draw_input(item.name, shape, source)
                for item, plain in zip(required, required_draws, strict=True)
            )
        )
    classes = [_is_class(item.name, source) and not plain for item, plain in zip(required, required_draws, strict=True)]
    if any(classes[1:]) and not classes[0]:
        lists.insert(0, _with_classes(required, classes, width, source))
    if len(required) == 1:
        lists += [(Draw("randint", (3, 18), 16, "int64"),), (Draw("randint", (7,), 16, "int64"),)]
    else:
        lists += _mixed(required, width, source)
    return [item for number, item in enumerate(lists) if item not in lists[:number]]


def plain_input(parameter: inspect.Parameter) -> Draw | None:
    """A value for an input that is annotated as no tensor."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    literal = {"int": "8", "float": "0.5", "bool": "False", "tuple": "(16, 16)"}.get(text, "")
    if not literal and not text.endswith("Tensor") and COUNTER_NAMES.search(parameter.name.lower()):
        literal = "1"
    return Draw("literal", literal=literal, dtype="") if literal else None


def _option(name: str, source: str) -> Draw | None:
    """The first of the strings that the code compares an input with."""
    texts = [item for item in find_options(source).get(name, ()) if isinstance(item, str)]
    return Draw("literal", literal=repr(texts[0]), dtype="") if texts else None


def _is_side(parameter: inspect.Parameter) -> bool:
    return _side(parameter) is not None


def _side(parameter: inspect.Parameter) -> Draw | None:
    """The sides of an image of which another input holds the pixels, by their usual names."""
    name = parameter.name.lower()
    literal = {"h": str(GRID[0]), "height": str(GRID[0]), "w": str(GRID[1]), "width": str(GRID[1])}.get(name, "")
    literal = literal or (str(GRID) if GRID_NAMES.search(name) else "")
    return Draw("literal", literal=literal, dtype="") if literal else None


@dataclass(frozen=True)
class _Sizes:
    """What constructor arguments, given or by default, say of an input: its features, an image's sides, a length.

    `is_known`: the features are more than a guess. They are not if a network takes the number of its classes alone.
    """

    width: int
    sides: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...]
    is_known: bool = True


def _sizes(init: tuple[str, ...], signature: inspect.Signature) -> _Sizes:
    """The feature count is a parameter of such a name, or the first number that looks like one."""
    parameters = list(signature.parameters.values())
    texts = [*init, *(repr(item.default) for item in parameters[len(init) :] if _is_size(item.default))]
    named = [item.name.lower() for item in [*parameters[: len(init)], *filter(_has_size, parameters[len(init) :])]]
    values = [integers(text) for text in texts]
    channels = [
        own[0] for name, own in zip(named, values, strict=False) if len(own) == 1 and CHANNEL_NAMES.search(name)
    ]
    others = (COUNT_NAMES, SIDE_NAMES, LENGTH_NAMES)
    unlike = [own for name, own in zip(named, values, strict=False) if not any(item.search(name) for item in others)]
    large = [value for own in unlike for value in own if value >= 5]
    sides = [
        (own[-2] if len(own) > 1 else own[0], own[-1])
        for name, own in zip(named, values, strict=False)
        if (SIDE_NAMES.search(name) or (len(own) == 2 and PAIR_NAMES.search(name)))
        and own
        and 4 <= max(own) <= MAX_SIDE
    ]
    lengths = [
        own[0]
        for name, own in zip(named, values, strict=False)
        if LENGTH_NAMES.search(name) and own and 2 <= own[0] <= MAX_LENGTH
    ]
    is_known = bool(channels or large) or len(unlike) == len(values)
    width = next(iter([*channels, *large]), 24)
    return _Sizes(width, tuple(dict.fromkeys(sides)), tuple(dict.fromkeys(lengths)), is_known)


def _has_size(parameter: inspect.Parameter) -> bool:
    return _is_size(parameter.default)


def _is_size(value: object) -> bool:
    """Whether a default is a whole number, or several."""
    if isinstance(value, (tuple, list)):
        return bool(value) and all(type(item) is int for item in value)
    return type(value) is int


def _ranks(source: str, name: str) -> list[int]:
    """Ranks of the input, most plausible first."""
    scores = dict.fromkeys((2, 3, 4, 5), 0.0)
    for rank, words in RANK_WORDS:
        scores[rank] += len(re.findall(words, source))
    scores[3] += 0.6 * len(FLAT_WORDS.findall(source))
    scores[2] += 0.5 * len(FLAT_WORDS.findall(source))
    for names, _ in UNPACKED.findall(source):
        rank = len(names.split(","))
        if rank in scores:
            scores[rank] += 3
    if re.search(r"img|image|pixel|feat_map", name):
        scores[4] += 2
    return sorted(scores, key=lambda rank: (-scores[rank], rank == 5, abs(rank - 3.4)))


def _shapes(rank: int, sizes: _Sizes) -> Iterator[tuple[int, ...]]:
    width = sizes.width
    if rank == 2:
        yield (18, width)
    elif rank == 3:
        yield from ((5, length, width) for length in sizes.lengths)
        yield from ((2, height * across, width) for height, across in sizes.sides)
        yield (5, 18, width)
        yield (5, width, 18)
    elif rank == 4:
        for sides in sizes.sides:
            yield (2, width, *sides)
            yield (2, 3, *sides)
        if not sizes.is_known:
            yield (2, 3, 64, 64)
        yield (3, width, 16, 20)
        yield (3, 3, 32, 40)
        yield (3, 16, 20, width)
        yield (3, 1, 16, 20)
        yield (2, 3, 64, 64)
        yield (2, width, 64, 64)
        yield (1, 3, 224, 224)
    else:
        yield (2, width, 6, 10, 8)


def draw_input(name: str, shape: tuple[int, ...], source: str) -> Draw:
    """How an input of this name is drawn."""
    lowered = name.lower()
    if INTEGER_NAMES.search(lowered) and not TARGET_NAMES.search(lowered):
        return Draw("randint", shape[:2], 16, "int64")
    if LENGTHS_NAMES.search(lowered) and len(shape) > 1:  # of padded sequences, longest first
        return Draw("lengths", shape[:1], shape[1], "int64")
    between = TARGET_NAMES.search(lowered) and re.search(r"bce|binary|sigmoid|dice|bceloss", source, re.I)
    if ADJACENCY_NAMES.search(lowered) and 1 < len(shape) < 4:  # between the nodes whose features come first
        return Draw("randn", (*shape[:-1], shape[-2]))
    return Draw("rand" if MASK_NAMES.search(lowered) or between else "randn", shape)


def _is_class(name: str, source: str) -> bool:
    """Whether the code takes an input for the numbers of classes: as an index, or one-hot."""
    cast = rf"\b{name}(?:\.\w+\([^()]*\))*\.long\(\)"
    return re.search(rf"{cast}|one_hot\({name}\b|scatter_?\([^()]*\b{name}\b", source) is not None


def _with_classes(required: list[inspect.Parameter], classes: list[bool], width: int, source: str) -> tuple[Draw, ...]:
    """Rows of features, and the number of a class for each row."""
    return tuple(
        Draw("randint", (18,), min(width, FEW_CLASSES), "int64")
        if is_class
        else draw_input(item.name, (18, width), source)
        for item, is_class in zip(required, classes, strict=True)
    )


def _mixed(required: list[inspect.Parameter], width: int, source: str) -> list[tuple[Draw, ...]]:
    """Inputs whose shapes differ from each other: class targets, different lengths or ranks."""
    first = draw_input(required[0].name, (18, width), source)
    targets = tuple(Draw("randint", (18,), width, "int64") for _ in required[1:])
    lengths = tuple(draw_input(item.name, (5, 14 + 4 * place, width), source) for place, item in enumerate(required))
    vectors = (
        draw_input(required[0].name, (5, width, 18, 16), source),
        *(Draw("randn", (5, width)) for _ in required[1:]),
    )
    flat = (draw_input(required[0].name, (18, width), source), *(Draw("randn", (18,)) for _ in required[1:]))
    return [(first, *targets), lengths, vectors, flat]
