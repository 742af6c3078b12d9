"""The datasets of a corpus: what each is called, which rows it holds and what it is for."""

from dataclasses import dataclass

from musadata import records, training_rows
from musadata.storage.shards import is_split


@dataclass(frozen=True)
class Dataset:
    """One folder of a corpus. `key` is the column that identifies a row, `split` says whether rows have that column."""

    name: str
    kind: type
    key: str
    purpose: str
    trainable: bool = False

    @property
    def split(self) -> bool:
        return is_split(self.name, self.kind)


DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("tasks", records.Task, "task_id", "PyTorch references that were executed and passed every filter"),
        Dataset(
            "kernels", records.Kernel, "kernel_id", "CUDA kernels that people wrote, with the Python that calls them"
        ),
        Dataset("annotations", records.Annotation, "annotation_id", "traces and six-step reasoning of tasks"),
        Dataset("candidates", records.Candidate, "candidate_id", "every answer of a teacher with its verdict"),
        Dataset("trajectories", records.Trajectory, "trajectory_id", "conversations with the verifier's feedback"),
        Dataset("unit_tests", records.UnitTest, "unit_test_id", "tests that pass right kernels and fail wrong ones"),
        Dataset("questions", records.Question, "question_id", "questions about tasks and kernels, with their facts"),
        Dataset("retries", training_rows.RetryRow, "retry_id", "tasks whose answers all failed, as repair tasks"),
        Dataset("ports", records.Port, "port_id", "accepted candidates in the form for MUSA"),
        Dataset("sft", training_rows.SftRow, "sft_id", "supervised fine-tuning: prompt and completion", True),
        Dataset("rft", training_rows.RftRow, "rft_id", "rejection-sampled fine-tuning: accepted answers", True),
        Dataset("preferences", training_rows.PreferenceRow, "preference_id", "accepted against failed answers", True),
        Dataset("rl", training_rows.RlRow, "rl_id", "prompts with what the verifier needs for a reward", True),
        Dataset("rejects", records.Reject, "origin", "what every step dropped, and why"),
    )
}
