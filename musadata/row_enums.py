"""The closed sets of values that columns of rows are of; `musadata.records` has the rows, and these by name."""

from enum import StrEnum


class SourceKind(StrEnum):
    """Where a task came from."""

    PAIRED = "paired"  # mined together with a kernel that people wrote for it
    MINED = "mined"
    NNSMITH = "nnsmith"
    COMPOSED = "composed"
    OPERATOR = "operator"


class OperatorFamily(StrEnum):
    """The kind of work that dominates a task; the paper balances its mixture over these."""

    ELEMENTWISE = "elementwise"
    BROADCAST = "broadcast"
    REDUCTION = "reduction"
    SOFTMAX = "softmax"
    NORMALIZATION = "normalization"
    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    POOLING = "pooling"
    INDEXING = "indexing"
    LAYOUT = "layout"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    LOSS = "loss"
    OTHER = "other"


class ErrorClass(StrEnum):
    """Why a candidate was not accepted: MooreEval's five classes, and two that it counts as cheating and infra."""

    COMPILE = "compile"
    RUNTIME = "runtime"
    CORRECTNESS = "correctness"
    CHEATING = "cheating"  # it pretends
    NOT_ALLOWED = "not_allowed"  # a policy refuses what it uses
    UNSUPPORTED = "unsupported"  # it cannot be run here
    INFRA = "infra"  # the task or the machine stands in the way

    @property
    def is_undecided(self) -> bool:
        """Whether nothing is said about the candidate."""
        return self in (ErrorClass.UNSUPPORTED, ErrorClass.INFRA)

    @property
    def is_illegal(self) -> bool:
        """Whether it is refused for how it computes, not for what."""
        return self in (ErrorClass.CHEATING, ErrorClass.NOT_ALLOWED)


class VerifyStage(StrEnum):
    """The verifier's stages, cheap before dear; a verdict names the last one that was reached."""

    EXTRACT = "extract"
    LEGALITY = "legality"
    COMPILE = "compile"
    EXECUTE = "execute"
    COMPARE = "compare"
    PROFILE = "profile"
    TIME = "time"


class Bound(StrEnum):
    """What limits a task on the roofline."""

    MEMORY = "memory"
    COMPUTE = "compute"


class QuestionTopic(StrEnum):
    """What a question is about."""

    MEMORY = "memory hierarchy"
    THREADS = "thread hierarchy"
    COALESCING = "coalescing"
    OCCUPANCY = "occupancy"
    SYNCHRONISATION = "synchronisation"
    NUMERICS = "numerics"
    TENSORS = "tensor semantics"
    MUSA = "CUDA and MUSA"


class PortVerdict(StrEnum):
    """What is known of a ported program."""

    NOT_RUN = "not run"  # no device of that platform judged it
    ACCEPTED = "accepted"


class ClaimOutcome(StrEnum):
    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    UNCHECKED = "unchecked"  # the expression cannot be evaluated, or says too little about its sentence
