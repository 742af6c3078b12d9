"""What native code holds and no row of a wrapper shows: kernels for CUDA and MUSA, and bindings without a link."""

from collections.abc import Iterator, Mapping
from functools import cached_property, partial

from musadata.mining.kernels.kernel_tasks import STEP, identified
from musadata.mining.kernels.musa_pairs import MusaPair, MusaPairs
from musadata.mining.kernels.native_slicing import TooMuchNativeCode
from musadata.mining.kernels.pairs import Linker
from musadata.records import Kernel, KernelDraft, NativeSource, Reject
from musadata.sources.protocol import CodeSource, contained

NO_KERNEL, NOT_BOUND, NOT_CALLED = "no_kernel_found", "not_bound", "not_called_from_python"


class UncalledKernels:
    """Rejects for bindings without a link, and rows of kernels that exist for CUDA and MUSA and have no wrapper."""

    def __init__(self, source: CodeSource, linker: Linker, musa: MusaPairs):
        self._source, self._linker, self._musa = source, linker, musa

    def unlinked(self, path: str) -> Iterator[Reject]:
        """The bindings that a Python file uses and that lead to no kernel, each once."""
        done: set[tuple[str, str]] = set()
        for use in self._linker.uses(path):
            key = (use.target, use.name)
            if key in done or use.name.startswith("__") or self._linker.link(use) is not None:
                continue
            done.add(key)
            bound = self._linker.bindings_of(use)
            if bound or self._linker.is_own(use):
                reason = NO_KERNEL if bound else NOT_BOUND
                where = f"{self._source.origin}/{path}:{use.wrapper.lineno}-{use.wrapper.end_lineno}"
                yield _reject(reason, f"{use.target}.{use.name} of {use.wrapper.name}", where)

    def rows(self) -> Iterator[KernelDraft | Reject]:
        """The kernels of pairs that no wrapper calls, and the bindings that no Python uses."""
        used, linked = self._used
        for place, pair in sorted(self._musa.by_kernel.items()):
            if place not in linked:
                where = f"{self._source.origin}/{place[0]}"
                yield from contained(partial(self._pair, pair), STEP, where)
        for binding in self._linker.repository.bindings:
            if (binding.path, binding.line, binding.name) not in used:
                reason = NOT_CALLED if self._linker.reaches_kernel(binding) else NO_KERNEL
                where = f"{self._source.origin}/{binding.path}:{binding.line}"
                yield _reject(reason, f"{binding.library}.{binding.name}", where)

    @cached_property
    def _used(self) -> tuple[set[tuple[str, int, str]], set[tuple[str, str]]]:
        """The bindings that some Python uses, and the kernels that some wrapper reaches."""
        used, linked = set(), set()
        for path in self._linker.repository.python_paths:
            for use in self._linker.uses(path):
                used |= {(item.path, item.line, item.name) for item, _ in self._linker.bindings_of(use)}
                link = self._linker.link(use)
                linked |= {(item.path, item.name) for item in link.reached if item.is_kernel} if link else set()
        return used, linked

    def _pair(self, pair: MusaPair) -> Iterator[KernelDraft | Reject]:
        first = pair.cuda[0]
        lines = f"{first.first}-{first.last}"
        hosts = self._musa.hosts(first)
        try:
            native, musa = self._musa.sources(pair.cuda), self._musa.sources(pair.musa)
        except TooMuchNativeCode as error:
            yield _reject("native_too_large", str(error), f"{self._source.origin}/{first.path}:{lines}")
            return
        kernel = Kernel(
            kernel_id="",
            wrapper="",
            wrapper_kind="",
            wrapper_source="",
            extension="",
            binding="",
            binding_form="",
            binding_source="",
            host=hosts[0].name if hosts else "",
            kernels=(first.name,),
            native=native_sources(self._source, native),
            musa=native_sources(self._source, musa),
            provenance=self._source.provenance(first.path, lines, own_files({**native, **musa})),
            equivalent="",
            task_id="",
            candidate="",
            split="train",
        )
        yield KernelDraft(identified(kernel))


def native_sources(source: CodeSource, files: Mapping[str, str]) -> tuple[NativeSource, ...]:
    """Native files of a row, each with its own licence; "" for code in a Python string, which has the wrapper's."""
    own = own_files(files)
    return tuple(
        NativeSource(path, text, source.provenance(path, "").license if path in own else "")
        for path, text in files.items()
    )


def own_files(files: Mapping[str, str]) -> list[str]:
    """The native files that are files of the tree; the others are code in a Python string."""
    return [path for path in files if ">." not in path]


def _reject(reason: str, detail: str, origin: str) -> Reject:
    return Reject("kernels", STEP, reason, " ".join(detail.split()), origin)
