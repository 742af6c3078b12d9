"""Kernels that a repository holds twice: for CUDA and for MUSA."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from musadata.mining.kernels.native_parsing import NativeFunction
from musadata.mining.kernels.native_slicing import slice_files
from musadata.mining.kernels.repository import Repository, is_musa

PLATFORM = re.compile(r"cuda|nvidia|gpu|musa|moore")
OTHERS = "hip|rocm|amd|metax|maca|iluvatar|corex|ppu|npu|ascend|mlu|bang|kunlun|xpu|sycl"
OTHER_PLATFORMS = re.compile(rf"(?:^|[/_.])(?:{OTHERS})(?=[/_.])")
Place = tuple[str, str]  # file and name


@dataclass(frozen=True)
class MusaPair:
    """One kernel: every definition of it (overloads) for CUDA and for MUSA."""

    cuda: tuple[NativeFunction, ...]
    musa: tuple[NativeFunction, ...]


class MusaPairs:
    """The kernels of a repository that exist for CUDA and for MUSA.

    Kernels belong together if their names are equal without the names of the platforms, and no other kernel of that
    name is nearer: in the file of the same name, in the folder of the same name, anywhere.
    """

    def __init__(self, repository: Repository):
        self._repository = repository
        self._launchers: dict[str, list[NativeFunction]] = defaultdict(list)
        functions = [item for file in repository.native.values() for item in file.functions]
        for function in functions:
            for name, _ in function.launches:
                self._launchers[name.rpartition("::")[2]].append(function)
        self.by_kernel = {(pair.cuda[0].path, pair.cuda[0].name): pair for pair in _match(functions)}

    def of(self, kernels: Iterable[NativeFunction]) -> list[MusaPair]:
        """The pairs of some CUDA kernels, each once."""
        places = dict.fromkeys((kernel.path, kernel.name) for kernel in kernels)
        return [self.by_kernel[place] for place in places if place in self.by_kernel]

    def hosts(self, kernel: NativeFunction) -> list[NativeFunction]:
        """The functions that launch a kernel: of its platform, in files that see its own."""
        seen = [
            item
            for item in self._launchers[kernel.name]
            if is_musa(item.path) == is_musa(kernel.path) and not OTHER_PLATFORMS.search(item.path.lower())
            if kernel.path in self._repository.visible_from(item.path) | {item.path}
        ]
        own = [item for item in seen if _key(item.path) == _key(kernel.path)]
        return own or seen[:1]

    def sources(self, kernels: Iterable[NativeFunction]) -> dict[str, str]:
        """The code of kernels and of the functions that launch them.

        Raises:
            TooMuchNativeCode: as `slice_files`.
        """
        needed = [item for kernel in kernels for item in (kernel, *self.hosts(kernel))]
        return slice_files(self._repository, {item.path for item in needed}, {item.name for item in needed})


def _match(functions: Iterable[NativeFunction]) -> list[MusaPair]:
    cuda: dict[str, dict[Place, list[NativeFunction]]] = defaultdict(lambda: defaultdict(list))
    musa: dict[Place, list[NativeFunction]] = defaultdict(list)
    for function in functions:
        if function.is_kernel and is_musa(function.path):
            musa[function.path, function.name].append(function)
        elif function.is_kernel and not OTHER_PLATFORMS.search(function.path.lower()):
            cuda[_plain(function.name)][function.path, function.name].append(function)
    found = []
    for (path, name), ours in sorted(musa.items()):
        candidates = cuda.get(_plain(name), {})
        distances = {place: _distance(path, place[0]) for place in candidates}
        nearest = [place for place, distance in distances.items() if distance == min(distances.values())]
        if nearest and (len(nearest) == 1 or len({_key(other) for other, _ in nearest}) == 1):
            found.append(MusaPair(tuple(candidates[min(nearest)]), tuple(ours)))
    return found


def _plain(name: str) -> str:
    """A kernel's name without its platform, and without letters that only format it."""
    return re.sub(r"kernel|_", "", PLATFORM.sub("", name.lower()))


def _key(path: str) -> tuple[str, ...]:
    """The parts of a path without platforms: equal for the two files of a pair."""
    parts = path.rpartition(".")[0].lower().split("/")
    plain = [re.sub(r"kernel|[_.\-]", "", PLATFORM.sub("", part)) for part in parts]
    return tuple(part for part in plain if part)


def _distance(path: str, other: str) -> int:
    """0 for files of one name, 1 for folders of one name, 2 for anything else."""
    first, second = _key(path), _key(other)
    return 0 if first == second else 1 if first[:-1] == second[:-1] or first[:-1] == second else 2
