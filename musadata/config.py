"""One typed configuration for all stages, read from YAML; a wrong key is an error that names it."""

import dataclasses
import os
import typing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import yaml

from musadata.asking_config import (
    GroundingConfig,
    QuestionsConfig,
    RequestsConfig,
    TeacherConfig,
    TeacherRole,
    TeacherType,
    UnitTestsConfig,
)
from musadata.bounds import Within, find_out_of_bounds
from musadata.errors import MusadataError
from musadata.training_config import MixingConfig, PortsConfig, ProfilingConfig, RewardsConfig, SamplingConfig


class SourceType(StrEnum):
    PACKAGE = "package"  # an installed Python package
    DIRECTORY = "directory"
    GIT = "git"  # a repository by URL, local clone or bare mirror
    PYPI = "pypi"  # a source distribution or wheel
    PARQUET = "parquet"  # dumps of files, such as The Stack
    GITHUB = "github"  # repositories found by a search
    NNSMITH = "nnsmith"  # random graphs
    COMPOSITION = "composition"  # fused chains and small blocks
    OPERATORS = "operators"  # PyTorch's operators, one task each


class BackendType(StrEnum):
    AUTO = "auto"
    EMULATED = "emulated"
    CUDA = "cuda"
    MUSA = "musa"


DEVICE_BACKENDS = (BackendType.CUDA, BackendType.MUSA)

# The keys of each kind of source or teacher beside `kind`; `!` marks those without which it cannot do.
KEYS: dict[str, str] = {
    SourceType.PACKAGE: "name! include exclude license dependencies",
    SourceType.DIRECTORY: "path! include exclude license kernels dependencies harvest_seconds",
    SourceType.GIT: "url! revision include exclude license kernels dependencies harvest_seconds",
    SourceType.PYPI: "name! revision url include exclude license kernels dependencies harvest_seconds",
    SourceType.PARQUET: "path! name columns! include exclude license dependencies harvest_seconds",
    SourceType.GITHUB: "name! path! count url include exclude license kernels dependencies harvest_seconds",
    SourceType.NNSMITH: "count! nodes",
    SourceType.COMPOSITION: "count!",
    SourceType.OPERATORS: "count!",
    TeacherType.COMPILER: "samples faults",
    TeacherType.OPENAI: (
        "model! base_url! samples temperature top_p max_tokens extra_body send_seed concurrency timeout_seconds "
        "prompt_price cached_price completion_price weight roles"
    ),
    TeacherType.BATCH: (
        "model! base_url path samples temperature top_p max_tokens extra_body send_seed concurrency "
        "prompt_price cached_price completion_price"
    ),
    TeacherType.VLLM: "model! samples temperature top_p max_tokens extra_body engine send_seed concurrency",
    TeacherType.REPLAY: "path! samples",
}


@dataclass(frozen=True)
class SourceConfig:
    """One place that tasks come from.

    Attributes:
        kind: which source this is.
        name: the package, for `package` and `pypi`; the search, for `github` ("topic:cuda language:python"); what rows
            call the dump, for `parquet` (default: the last part of its path).
        path: the folder, for `directory`; the file, folder or glob, for `parquet`; where what was found is kept, for
            `github`, so that a rerun mines the same repositories.
        url: the repository, for `git` (a URL or a path); another index or API than the usual, for `pypi`, `github`.
        revision: the commit, tag or branch, for `git`; the version, for `pypi`. Fix it, or rows change with upstream.
        columns: for `parquet`, our name -> the dump's: content (needed), path, repository, revision, license.
        include: glob patterns of files to read, relative to the package or folder; empty reads all Python files.
        exclude: glob patterns of files to leave out.
        count: how many to draw, for `nnsmith` and `composition`; how many of the inventory, for `operators`; how many
            repositories at the most, for `github`.
        nodes: operators per graph at the most, for `nnsmith`.
        license: SPDX identifier, where the source itself does not say.
        kernels: also link Python to the CUDA kernels that it calls, for `directory`, `git`, `pypi` and `github`.
        dependencies: releases of a package index ("timm==1.0.9") whose Python code may be copied into references that
            import it, for sources of code. They are fetched once, bounded in time and size, and read in memory; nothing
            of them is installed, and their setup never runs. A row's licence covers what was copied.
        harvest_seconds: CPU time that one test file or example of a source of code may take: it runs in the sandbox,
            and shows how its modules are constructed and called. It uses the packages that are installed. 0 runs none.
    """

    kind: SourceType
    name: str = ""
    path: str = ""
    url: str = ""
    revision: str = ""
    columns: dict[str, str] = field(default_factory=dict, hash=False)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    count: int = 0
    nodes: int = 6
    license: str = ""
    kernels: bool = True
    dependencies: tuple[str, ...] = ()
    harvest_seconds: float = 5.0


@dataclass(frozen=True)
class TasksConfig:
    """Which drafts become tasks.

    Attributes:
        seconds: CPU time that one execution of a reference may take.
        memory_mb: memory that it may take.
        max_elements: largest tensor that a task may hold.
        max_lines: longest reference; one that needs more drags a whole registry along and fits no prompt.
        half_share: share of mined tasks whose parameters and inputs are in bfloat16 or float16, where the reference
            passes every filter so.
        duplicate_similarity: Jaccard similarity from which two references count as near-duplicates.
        licenses: SPDX identifiers that are allowed.
        decontaminate: benchmark fingerprint sets to keep out (names in `musadata/tasks/fingerprints/` or paths).
        families: target share per operator family for balancing; empty keeps everything.
    """

    seconds: Annotated[float, Within(0.1)] = 20.0
    memory_mb: Annotated[int, Within(256)] = 4096
    max_elements: Annotated[int, Within(1)] = 1 << 22
    max_lines: Annotated[int, Within(1)] = 1000
    half_share: float = 0.25
    duplicate_similarity: Annotated[float, Within(0, 1)] = 0.85
    licenses: tuple[str, ...] = (
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "MIT",
        "ISC",
        "0BSD",
        "CC0-1.0",
        "Unlicense",
    )
    decontaminate: tuple[str, ...] = ("kernelbench",)
    families: dict[str, float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class TracingConfig:
    """Attributes:
    shape_sets: how many sets of input shapes a task is traced on, at least 2. Where sizes grow to the measure size,
        one or two further sets have a long one.
    seconds: CPU time for all of a task's traces.
    """

    shape_sets: Annotated[int, Within(2, 16)] = 2
    seconds: Annotated[float, Within(0.1)] = 30.0


@dataclass(frozen=True)
class VerifierConfig:
    """How candidates are judged.

    Attributes:
        backend: where kernels run; `auto` takes a CUDA device if there is one.
        seconds: CPU time that one candidate may take, compilation aside.
        compile_seconds: CPU time that one compilation may take.
        memory_mb: memory that one candidate may take.
        input_sets: randomised input sets for each set of shapes; those with one long size or many elements have one.
        sanitize: check every access of every call, and report all that looks like a mistake, with its line; else only
            the first accesses are checked, for what changes a result or leaves the bounds (emulated backend).
        policy: what is refused of what was found: `strict`, `paper`, `kernelbench`, `audit`, or a YAML file of one's
            own; docs/policies.md.
        seed: the secret from which the input seeds are drawn.
        timed_runs: calls that are timed, on a device, of the candidate and of the reference: fewer, but ten, once the
            median is certain to 1 %, and up to five times as many until it is.
        torch_compile: also time the reference through torch.compile; takes tens of seconds per reference.
    """

    backend: BackendType = BackendType.AUTO
    seconds: Annotated[float, Within(0.1)] = 60.0
    compile_seconds: Annotated[float, Within(0.1)] = 120.0
    memory_mb: Annotated[int, Within(256)] = 6144
    input_sets: Annotated[int, Within(1, 1000)] = 3
    sanitize: bool = False
    policy: str = "strict"
    seed: Annotated[int, Within(0, 2**63 - 1)] = 0
    timed_runs: Annotated[int, Within(10, 100_000)] = 100
    torch_compile: bool = False


@dataclass(frozen=True)
class ClusterConfig:
    """What a cluster's workers must have. Rows do not depend on these keys.

    Attributes:
        accelerator: Beam's resource hint for steps that run kernels on a device, for `DataflowRunner`, such as
            "type:nvidia-h100-80gb;count:1;install-nvidia-driver"; empty where each worker has one anyhow.
    """

    accelerator: str = ""


@dataclass(frozen=True)
class Config:
    """The whole run.

    Attributes:
        sources: where tasks come from; at least one.
        seed: everything random is drawn from it.
        shards: how many parts each dataset is dealt into; a shard is the unit of resumption.
        teachers: further teachers of kind `openai` beside `teacher`, each with its own model, server, sampling, weight
            and roles; `samples` is taken from `teacher`.
        limit: tasks that the teacher is asked about, for a trial; 0 for all. `--limit` overrides it.
        published: the date of the corpus for Croissant, "2026-11-28"; "" for none.
    """

    sources: tuple[SourceConfig, ...]
    seed: Annotated[int, Within(0, 2**63 - 1)] = 0
    shards: Annotated[int, Within(1, 99_999)] = 16
    limit: Annotated[int, Within(0)] = 0
    published: str = ""
    tasks: TasksConfig = TasksConfig()
    tracing: TracingConfig = TracingConfig()
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    teachers: tuple[TeacherConfig, ...] = ()
    requests: RequestsConfig = field(default_factory=RequestsConfig)
    verifier: VerifierConfig = VerifierConfig()
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    grounding: GroundingConfig = field(default_factory=GroundingConfig)
    unit_tests: UnitTestsConfig = field(default_factory=UnitTestsConfig)
    questions: QuestionsConfig = field(default_factory=QuestionsConfig)
    rewards: RewardsConfig = field(default_factory=RewardsConfig)
    mixing: MixingConfig = field(default_factory=MixingConfig)
    profiling: ProfilingConfig = field(default_factory=ProfilingConfig)
    ports: PortsConfig = field(default_factory=PortsConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)


def load_config(path: str | Path, needs_sources: bool = True) -> Config:
    """Read and check a YAML config; one for rewards alone needs no sources.

    Raises:
        MusadataError: the file cannot be read, is not YAML, or a key is unknown, missing or of the wrong type.
    """
    path = Path(path)
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise MusadataError(
            f"cannot be read ({error.strerror})", where=str(path), remedy="name an existing file; configs/ has examples"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise MusadataError(
            f"is not YAML ({' '.join(str(error).split())})", where=str(path), remedy="see configs/quickstart.yaml"
        ) from error
    if not needs_sources and isinstance(data, dict):
        data = {"sources": [], **data}
    config: Config = _read(Config, data, str(path), "")
    _check(config, str(path), needs_sources)
    return _beside(config, path.parent)


def _beside(config: Config, folder: Path) -> Config:
    """The config with its relative paths as they are from the current folder: they are meant from that of the file."""

    def place(text: str) -> str:
        fixed = not text or "://" in text or text.startswith(("~", "git@")) or Path(text).is_absolute()
        return text if fixed else os.path.relpath(folder / text)

    def file(text: str) -> str:
        return place(text) if text.endswith((".yaml", ".yml", ".json")) else text

    sources = [
        dataclasses.replace(one, path=place(one.path), url=place(one.url) if one.kind is SourceType.GIT else one.url)
        for one in config.sources
    ]
    fingerprints = tuple(map(file, config.tasks.decontaminate))
    return dataclasses.replace(
        config,
        sources=tuple(sources),
        teacher=dataclasses.replace(config.teacher, path=place(config.teacher.path)),
        tasks=dataclasses.replace(config.tasks, decontaminate=fingerprints),
        verifier=dataclasses.replace(config.verifier, policy=file(config.verifier.policy)),
    )


class _Loader(yaml.SafeLoader):
    """YAML in which a key may not stand twice: the first one would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]  # type: ignore[no-untyped-call]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                problem = f"the key {key!r} stands there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, node.value[index][0].start_mark)
        return super().construct_mapping(node, deep)


def _check(config: Config, file: str, needs_sources: bool) -> None:
    def require(good: bool, key: str, what: str, remedy: str = "change it") -> None:
        if not good:
            raise MusadataError(what, where=f"{file}: {key}", remedy=remedy)

    require(len(config.sources) > 0 or not needs_sources, "sources", "is empty, so there is nothing to make tasks from")
    require(len(config.tasks.licenses) > 0, "tasks.licenses", "is empty, so no task would be allowed")
    spent = config.requests.budget_cost > 0 and not (config.teacher.prompt_price or config.teacher.completion_price)
    require(not spent, "requests.budget_cost", "needs prices", "add teacher.prompt_price and completion_price")
    for key, wrong in find_out_of_bounds(config):
        require(False, key, wrong)
    turns, bonuses = config.sampling.turns, len(config.sampling.early_bonus)
    require(bonuses >= turns, "sampling.early_bonus", f"has {bonuses} numbers, but there are {turns} turns")
    falls = list(config.sampling.early_bonus) == sorted(config.sampling.early_bonus, reverse=True)
    require(falls, "sampling.early_bonus", "rises, but a later success must not be worth more")
    parts: dict[str, TeacherConfig | SourceConfig] = {"teacher": config.teacher}
    parts |= {f"teachers[{index}]": one for index, one in enumerate(config.teachers)}
    parts |= {f"sources[{index}]": source for index, source in enumerate(config.sources)}
    for key, part in parts.items():
        keys = KEYS[part.kind].split()
        for name in keys:
            missing = f"is missing, but kind {part.kind.value} needs it"
            require(
                bool(getattr(part, name.rstrip("!"))) or name[-1] != "!", f"{key}.{name.rstrip('!')}", missing, "add it"
            )
        for item in dataclasses.fields(part):
            idle = item.name != "kind" and item.name not in [name.rstrip("!") for name in keys]
            unknown = f"is for other kinds than {part.kind.value}"
            require(
                not idle or getattr(part, item.name) == _default(item), f"{key}.{item.name}", unknown, "leave it out"
            )
        word = getattr(part, "license", "")
        unusual = f"is {word}, which tasks.licenses does not allow, so nothing of this source would be kept"
        require(not word or " " in word or word in config.tasks.licenses, f"{key}.license", unusual, "add it there")
    for key, part in parts.items():
        if not isinstance(part, TeacherConfig):
            continue
        require(part.timeout_seconds > 0, f"{key}.timeout_seconds", "must be more than 0")
        require(part.weight > 0, f"{key}.weight", "must be more than 0")
        require(not config.teachers or part.kind is TeacherType.OPENAI, f"{key}.kind", "must be openai in a panel")
        if part.kind is TeacherType.OPENAI or (part.kind is TeacherType.BATCH and not part.path):
            good = part.base_url.startswith(("http://", "https://"))
            require(good, f"{key}.base_url", f"is {part.base_url!r}, but must start with http:// or https://")
    for role in TeacherRole if config.teachers else ():
        have = any(role in one.roles for one in (config.teacher, *config.teachers))
        require(have, "teachers", f"has no {role.value}", "add it to the roles of one")


def _default(item: "dataclasses.Field[Any]") -> Any:
    return item.default if item.default_factory is dataclasses.MISSING else item.default_factory()


def _read(kind: Any, value: Any, file: str, key: str) -> Any:
    """`value` as an instance of `kind`, or an error that names `key`."""

    def wrong(expected: str) -> MusadataError:
        shown = repr(value) if len(repr(value)) < 60 else type(value).__name__
        return MusadataError(
            f"must be {expected}, not {shown}", where=f"{file}: {key or 'the file'}", remedy="change it"
        )

    if kind is Any:
        return value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise wrong("a mapping of keys")
        return _read_dataclass(kind, value, file, key)
    if origin is tuple:
        if not isinstance(value, list):
            raise wrong("a list")
        return tuple(_read(arguments[0], item, file, f"{key}[{index}]") for index, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise wrong("a mapping")
        return {str(name): _read(arguments[1], item, file, f"{key}.{name}") for name, item in value.items()}
    if issubclass(kind, StrEnum):
        if value not in [member.value for member in kind]:
            raise wrong("one of " + ", ".join(member.value for member in kind))
        return kind(value)
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise wrong({int: "a whole number", float: "a number", str: "a text", bool: "true or false"}[kind])
    return value


def _read_dataclass(kind: Any, value: dict[str, Any], file: str, key: str) -> Any:
    hints = typing.get_type_hints(kind)
    prefix = f"{key}." if key else ""
    for name in value:
        if name not in hints:
            raise MusadataError(
                "unknown key", where=f"{file}: {prefix}{name}", remedy=f"known here: {', '.join(sorted(hints))}"
            )
    for item in dataclasses.fields(kind):
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if required and item.name not in value:
            raise MusadataError("missing key", where=f"{file}: {prefix}{item.name}", remedy="add it")
    return kind(**{name: _read(hints[name], item, file, f"{prefix}{name}") for name, item in value.items()})
