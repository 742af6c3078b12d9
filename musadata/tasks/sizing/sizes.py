"""Sizes of input specs: groups that may have to change together, and specs with other sizes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from musadata.records import InputSpec

Specs = tuple[InputSpec, ...]
Place = tuple[int, int]  # (argument, dimension)


@dataclass(frozen=True)
class FreeSize:
    """Dimensions that can change together, and to what.

    Attributes:
        places: the dimensions, all of one size.
        powers: any power of two will do; if not, the size times one.
        batch: the first dimension of tensors that have others.
        spatial: a dimension of images or volumes.
        channels: the second dimension of images or volumes.
        bounds: arguments whose integers are bounded by this size.
    """

    places: frozenset[Place]
    size: int
    powers: bool
    batch: bool
    spatial: bool
    channels: bool
    bounds: frozenset[int] = frozenset()

    @property
    def next_size(self) -> int:
        """The smallest size that it can grow to: the next power of two, or twice the size."""
        return 1 << self.size.bit_length() if self.powers else 2 * self.size

    def sizes(self, most: int) -> list[int]:
        """The sizes that it can grow to, the largest first."""
        size, found = self.next_size, []
        while size <= most:
            found.append(size)
            size *= 2
        return found[::-1]

    def resize(self, specs: Specs, size: int) -> Specs:
        """The specs with this size changed."""
        more = size - size_at(specs, min(self.places))

        def resized(index: int, spec: InputSpec) -> InputSpec:
            shape = tuple(size if (index, axis) in self.places else old for axis, old in enumerate(spec.shape))
            return replace(spec, shape=shape, high=spec.high + more * (index in self.bounds))

        return tuple(resized(index, spec) for index, spec in enumerate(specs))


def groups(specs: Specs) -> Iterator[frozenset[Place]]:
    """Sets of dimensions of one size that may have to change together, most plausible first, none twice.

    The same axis from the left (a batch), from the right (features that broadcast), the same size anywhere (lengths
    that meet in a product), each dimension alone. Sizes of 1 come last, those that broadcast are left out. Batches of
    one size are never told apart: `zip` leaves out what only one of them has.
    """
    places = [
        (index, axis)
        for index, spec in enumerate(specs)
        if spec.kind != "literal"
        for axis in range(len(spec.shape))
        if not is_broadcast(specs, (index, axis))
    ]
    places.sort(key=lambda place: (size_at(specs, place) == 1, place[1]))
    keys: list[Callable[[Place], object]] = [
        lambda place: (size_at(specs, place), place[1]),
        lambda place: (size_at(specs, place), place[1] - len(specs[place[0]].shape)),
        lambda place: size_at(specs, place),
        lambda place: place,
    ]
    seen: set[frozenset[Place]] = set()
    for key in keys:
        for value in dict.fromkeys(key(place) for place in places):
            group = frozenset(place for place in places if key(place) == value)
            if group not in seen and not _splits_batch(group, places, specs):
                seen.add(group)
                yield group


def _splits_batch(group: frozenset[Place], places: Sequence[Place], specs: Specs) -> bool:
    """Whether a set holds the batch of one argument, and not that of another one of the same size."""
    batches = [place for place in places if place[1] == 0 and len(specs[place[0]].shape) > 1]
    own = {size_at(specs, place) for place in batches if place in group}
    return any(size_at(specs, place) in own for place in batches if place not in group)


def is_broadcast(specs: Specs, place: Place) -> bool:
    """Whether a size of 1 is there to be broadcast: its argument's shape broadcasts to that of another one, which is
    larger here. With another size it would be another computation."""
    shape, from_right = specs[place[0]].shape, place[1] - len(specs[place[0]].shape)
    if shape[from_right] != 1:
        return False
    for other in (spec.shape for spec in specs if len(spec.shape) >= len(shape)):
        ends = other[len(other) - len(shape) :]
        if ends[from_right] > 1 and all(one in (1, end) for one, end in zip(shape, ends, strict=True)):
            return True
    return False


def find_free(specs: Specs, accepts: Callable[[Specs], bool]) -> list[FreeSize]:
    """The sizes that can grow, each on its own and all together. `accepts` says whether the reference runs on specs.

    They are tried at twice the next size: at the next one a size can fit by rounding, as widths of 7 and 8 give a
    pooling of stride 2 the same results.
    """
    free: list[FreeSize] = []
    taken: set[Place] = set()
    for places in groups(specs):
        if places & taken:
            continue
        any_power = _free(specs, places)
        for trial in dict.fromkeys([any_power, replace(any_power, powers=False)]):
            if accepts(_grown(specs, [*free, trial])):
                free.append(trial)
                taken |= places
                break
    return free


def _free(specs: Specs, places: frozenset[Place]) -> FreeSize:
    ranks = {index: len(specs[index].shape) for index, _ in places}
    return FreeSize(
        places,
        size_at(specs, min(places)),
        powers=True,
        batch=any(axis == 0 and ranks[index] > 1 for index, axis in places),
        spatial=all(axis >= 2 and ranks[index] >= 4 for index, axis in places),
        channels=all(axis == 1 and ranks[index] >= 4 for index, axis in places),
    )


def _grown(specs: Specs, free: Iterable[FreeSize]) -> Specs:
    for one in free:
        specs = one.resize(specs, 2 * one.next_size)
    return specs


def size_at(specs: Sequence[InputSpec], place: Place) -> int:
    return specs[place[0]].shape[place[1]]
