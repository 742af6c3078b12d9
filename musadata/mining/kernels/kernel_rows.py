"""From a file to the rows of `kernels/`: its wrappers, the kernels that they call, and a task if there is one."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from musadata.errors import Rejection
from musadata.mining.kernels.equivalents import Equivalent, find_equivalents
from musadata.mining.kernels.extension_candidates import (
    PAIR,
    ExtensionCandidate,
    cut_candidate,
    cut_reference,
)
from musadata.mining.kernels.gradients import Gradient, write_gradient
from musadata.mining.kernels.kernel_tasks import STEP, identified
from musadata.mining.kernels.musa_pairs import MusaPairs
from musadata.mining.kernels.native_slicing import NativeSlice, TooMuchNativeCode, slice_native
from musadata.mining.kernels.pairs import Link, Linker
from musadata.mining.kernels.rebinding import GRADIENTS
from musadata.mining.kernels.repository import Definition, Repository, wrapper_kind
from musadata.mining.kernels.uncalled import UncalledKernels, native_sources, own_files
from musadata.mining.kernels.usage import find_examples
from musadata.mining.reading.parsing import first_line
from musadata.mining.slicing.class_slicing import Unsliceable
from musadata.mining.slicing.drafting import LIMITS, find_arguments, write_reference
from musadata.records import Draft, Kernel, KernelDraft, Reject, SourceKind
from musadata.sandbox import Caller
from musadata.sources.protocol import CodeSource, contained

GRADIENT = "the gradient of"
EXAMINE = "musadata.mining.kernels.gradient_examination:examine_gradient"
MAX_EQUIVALENTS = 12  # of one wrapper that are tried


class KernelMiner:
    """Finds the kernels of one tree. Native code is read on first use."""

    def __init__(self, source: CodeSource):
        self._source = source

    @cached_property
    def _linker(self) -> Linker:
        return Linker(Repository(self._source.tree))

    @property
    def _repository(self) -> Repository:
        return self._linker.repository

    @cached_property
    def _equivalents(self) -> dict[str, list[Equivalent]]:
        """Equivalents by the wrapper's file, the best of each wrapper first; none in a tree without native code."""
        if not self._repository.bindings:
            return {}
        found: dict[str, list[Equivalent]] = {}
        for item in find_equivalents(self._repository):
            found.setdefault(item.wrapper_path, []).append(item)
        return found

    def rows(self, path: str, sandbox: Caller) -> Iterator[KernelDraft | Reject]:
        """The kernels that a file's wrappers call, in a fixed order, and a reject for each that cannot be a row.

        The source's first file stands for its native code: what no Python calls is told with it.
        """
        if path.endswith(".py") and self._repository.bindings:
            yield from self._called(path, sandbox)
        if path == self._first:
            yield from self._uncalled.rows()

    @cached_property
    def _first(self) -> str:
        return next((unit for unit in self._source.units() if unit.endswith(".py")), "")

    @cached_property
    def _uncalled(self) -> UncalledKernels:
        return UncalledKernels(self._source, self._linker, self._musa)

    @cached_property
    def _musa(self) -> MusaPairs:
        return MusaPairs(self._repository)

    def _called(self, path: str, sandbox: Caller) -> Iterator[KernelDraft | Reject]:
        done: set[tuple[str, str]] = set()
        known = self._equivalents.get(path, ())
        for name in dict.fromkeys(item.wrapper.name for item in known):
            for item in self._best([one for one in known if one.wrapper.name == name], sandbox):
                if isinstance(item, KernelDraft):
                    done.add((item.kernel.wrapper, item.kernel.binding))
                yield item
        for link in sorted(self._linker.links(path), key=_order):
            key = (link.pair.wrapper, link.pair.binding)
            if key not in done:
                done.add(key)
                where = f"{self._source.origin}/{path}:{_lines(link.use.wrapper)}"
                yield from contained(partial(self._linked, link), STEP, where)
        yield from self._uncalled.unlinked(path)

    def _best(self, equivalents: Sequence[Equivalent], sandbox: Caller) -> list[KernelDraft | Reject]:
        """What the first equivalent of a wrapper gives that becomes a task, else what the first one gives."""
        first: list[KernelDraft | Reject] = []
        for equivalent in equivalents[:MAX_EQUIVALENTS]:
            where = f"{self._source.origin}/{equivalent.wrapper_path}:{_lines(equivalent.wrapper)}"
            found = list(contained(partial(self._paired, equivalent, sandbox), STEP, where))
            if any(isinstance(item, KernelDraft) and item.draft is not None for item in found):
                return found
            if not found:
                break  # the wrapper calls no kernel
            first = first or found
        return first

    def _linked(self, link: Link) -> Iterator[KernelDraft | Reject]:
        yield self._row(link, [link])

    def _paired(self, equivalent: Equivalent, sandbox: Caller) -> Iterator[KernelDraft | Reject]:
        """The row of a wrapper with an equivalent, and its task, and those of its gradient where kernels compute it;
        nothing if the wrapper calls no kernel."""
        where = f"{self._source.origin}/{equivalent.wrapper_path}:{_lines(equivalent.wrapper)}"
        try:
            candidate = cut_candidate(self._source.tree, self._linker, equivalent)
        except Unsliceable as error:
            linked = [link.use.wrapper.name for link in self._linker.links(equivalent.wrapper_path)]
            if equivalent.wrapper.name in linked:  # a wrapper that calls no kernel is no loss
                yield _reject("tasks", f"wrapper_{error.reason}", error.detail, where)
            return
        except TooMuchNativeCode as error:
            yield _reject("kernels", "native_too_large", str(error), where)
            return
        if candidate is None:
            return
        solved = self._solve(equivalent, sandbox, where)
        if isinstance(solved, Reject):
            yield solved
            yield self._row(candidate.links[0], candidate.links, equivalent)
            return
        definitions, found = solved
        draft = self._draft(equivalent, write_reference(definitions, found["init"], found["inputs"]))
        yield self._row(candidate.links[0], candidate.links, equivalent, candidate, draft)
        with suppress(Unsliceable, TooMuchNativeCode):
            whole = cut_candidate(self._source.tree, self._linker, equivalent, backward=True)
            links = [link for link in whole.links if link not in candidate.links] if whole else []
            outcome = sandbox.call(EXAMINE, draft.reference, limits=LIMITS) if links else None
            if whole and outcome is not None and outcome.ok and outcome.value is not None:
                gradient = Gradient(**outcome.value)
                inputs = [*found["inputs"], *gradient.draws]
                draft = self._draft(
                    equivalent, write_reference(write_gradient(definitions, gradient, "Model"), found["init"], inputs)
                )
                backward = replace(whole, source=write_gradient(whole.source, gradient, "ModelNew"))
                evidence = replace(equivalent, evidence=f"{GRADIENT} {equivalent.evidence}")
                yield self._row(links[0], links, evidence, backward, draft)

    def _draft(self, equivalent: Equivalent, reference: str) -> Draft:
        place = self._source.provenance(equivalent.plain_path, _lines(equivalent.plain))
        return Draft(SourceKind.PAIRED, equivalent.plain.name, reference, place)

    def _solve(self, equivalent: Equivalent, sandbox: Caller, where: str) -> tuple[str, dict[str, Any]] | Reject:
        """The definitions of the equivalent as a reference, and arguments with which it runs."""
        name = equivalent.plain.name
        try:
            definitions = cut_reference(self._source.tree, equivalent)
        except Unsliceable as error:
            return _reject("tasks", f"equivalent_{error.reason}", error.detail, where)
        called = name if equivalent.is_module else PAIR
        examples, salt = find_examples(self._repository, equivalent), f"{self._source.seed}/pair/{name}"
        try:
            search = "musadata.mining.search:search_pair"
            found = find_arguments(sandbox, search, definitions, called, examples, salt)
        except Rejection as error:
            return _reject("tasks", error.reason, error.detail, where)
        return definitions, found

    def _row(
        self,
        link: Link,
        links: Sequence[Link],
        equivalent: Equivalent | None = None,
        candidate: ExtensionCandidate | None = None,
        draft: Draft | None = None,
    ) -> KernelDraft | Reject:
        wrapper, path = link.use.wrapper, link.use.path
        first, rest = links[0], [item for item in links if item.extension == links[0].extension]
        try:
            native = slice_native(self._repository, rest)
            pairs = self._musa.of(kernel for item in rest for kernel in item.reached if kernel.is_kernel)
            musa = self._musa.sources(kernel for pair in pairs for kernel in pair.musa) if pairs else {}
        except TooMuchNativeCode as error:
            return _reject("kernels", "native_too_large", str(error), f"{self._source.origin}/{path}:{_lines(wrapper)}")
        kernel = Kernel(
            kernel_id="",
            wrapper=wrapper.name,
            wrapper_kind=wrapper_kind(wrapper),
            wrapper_source=_source_of(self._repository, wrapper, path),
            extension=first.extension.name,
            binding=first.pair.binding,
            binding_form=_form(first, native),
            binding_source="\n\n".join(native.blocks.values()),
            host=first.pair.host,
            kernels=tuple(dict.fromkeys(name for item in rest for name in item.pair.kernels)),
            native=native_sources(self._source, native.files),
            musa=native_sources(self._source, musa),
            provenance=self._source.provenance(path, _lines(wrapper), own_files({**native.files, **musa})),
            equivalent=equivalent.evidence if equivalent else "",
            task_id="",
            candidate=candidate.source if candidate else "",
            split="train",
        )
        return KernelDraft(identified(kernel), draft)


def _order(link: Link) -> tuple[int, bool, str, str]:
    """Sort key: wrappers in file order, forward before backward."""
    return link.use.wrapper.lineno, link.use.method in GRADIENTS, link.pair.extension, link.pair.binding


def _form(link: Link, native: NativeSlice) -> str:
    if native.library.startswith("torch.ops."):
        return "torch_library"
    return "load_inline" if link.extension.inline else "pybind11"


def _source_of(repository: Repository, node: Definition, path: str) -> str:
    lines = repository.text(path).splitlines(keepends=True)
    return "".join(lines[first_line(node) - 1 : node.end_lineno])


def _lines(node: Definition) -> str:
    return f"{node.lineno}-{node.end_lineno}"


def _reject(dataset: str, reason: str, detail: str, origin: str) -> Reject:
    return Reject(dataset, STEP, reason, " ".join(detail.split()), origin)
