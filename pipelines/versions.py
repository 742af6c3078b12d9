"""Which code makes which results, so that an edit makes those anew that it may change; see `code_version`."""

from musadata.config import Config, TeacherConfig, VerifierConfig
from musadata.sources import OPENERS
from musadata.storage.code_version import code_version
from musadata.teacher import TEACHERS
from musadata.verifier.backend_choice import BACKENDS

SANDBOX = "musadata.sandbox"
# What stage 1 executes in sandboxes, to find drafts and to probe them.
EXECUTED = (
    "musadata.mining.harvest.recording",
    "musadata.mining.kernels.gradient_examination",
    "musadata.mining.search",
    "musadata.sources.nnsmith",
    "musadata.tasks.sizing.measure",
)


def probing_version(config: Config) -> str:
    """Of the drafts of these sources and what their references prove to be."""
    sources = {OPENERS[source.kind] for source in config.sources}
    producers = (SANDBOX, "musadata.mining.miner", "musadata.tasks.probe", *sorted(sources))
    return code_version(producers, ("torch", "nnsmith"))


def executions_name(function: str) -> str:
    """Name of the journal of a sandboxed function of stage 1: another one when its code has changed."""
    module = function.partition(":")[0]
    return f"executions-{code_version((SANDBOX, module), ('torch', 'nnsmith'))}"


def selection_version() -> str:
    """Of the choice among probed tasks."""
    return code_version(("musadata.tasks.rebalance",))


def answers_version(config: TeacherConfig) -> str:
    """Of answers that a teacher computes; "" where a model gives them, since paid answers outlive our code."""
    kind = TEACHERS[config.kind]
    return code_version((SANDBOX, kind.module), ("torch",)) if kind.is_computed else ""


def annotation_version(config: TeacherConfig) -> str:
    """Of traces and of reasoning about them."""
    producers = (SANDBOX, "musadata.tracing.task", "musadata.teacher.annotation", TEACHERS[config.kind].module)
    return code_version(producers, ("torch",))


def verdicts_version(config: VerifierConfig) -> str:
    """Of verdicts."""
    return code_version((SANDBOX, "musadata.verifier.verifier", *BACKENDS[config.backend]), ("torch",))


def tests_version(config: Config) -> str:
    """Of unit tests, and of what came of them."""
    makers = ("musadata.sampling.unit_tests", "musadata.teacher.compiler_teacher", "musadata.corpus.views.knowledge")
    made = code_version(makers)
    return "-".join((made, annotation_version(config.teacher), verdicts_version(config.verifier)))


def profiles_version(counting: VerifierConfig) -> str:
    """Of profiles: how accesses are counted, and what is said about them."""
    made = code_version(("musadata.sampling.profiling.profiles", "musadata.corpus.views.supervised"))
    return "-".join((made, verdicts_version(counting)))


def ports_version() -> str:
    """Of ports to MUSA, and of the rows that teach them."""
    return code_version(
        ("musadata.sampling.ports", "musadata.corpus.views.supervised", "musadata.corpus.views.translation")
    )


def questions_version(config: Config) -> str:
    """Of questions and answers, and of their check."""
    made = code_version(("musadata.sampling.questions", "musadata.corpus.views.knowledge"))
    return "-".join((made, annotation_version(config.teacher)))


def assembly_version(config: Config) -> str:
    """Of all that conversations come to."""
    made = code_version(("musadata.sampling.assembly", "musadata.sampling.sample_plan", "musadata.corpus.views"))
    return "-".join((made, annotation_version(config.teacher), verdicts_version(config.verifier)))
