"""Stage 3: candidates -> verdicts -> repair -> a diverse, verified corpus.

python -m pipelines.stage3 --config configs/quickstart.yaml --corpus build/quickstart --runner DirectRunner
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from musadata.config import DEVICE_BACKENDS
from musadata.corpus.mixture import check_mixing
from musadata.sampling.sample_plan import SamplePlan
from musadata.storage.commits import Commit
from musadata.storage.shards import Shard
from pipelines import limits
from pipelines.assembly import Assemble
from pipelines.options import parse_options, run_command
from pipelines.ports import PortKernels
from pipelines.profiling import ProfileKernels
from pipelines.questions import WriteQuestions
from pipelines.retries import count_rounds
from pipelines.rollout_steps import AskTeacher, Compile, Converse, Execute
from pipelines.run import run_stages
from pipelines.stage import Stage
from pipelines.steps import ShardStep, Undone, all_found
from pipelines.unit_tests import TestKernels

if TYPE_CHECKING:
    import apache_beam as beam


class Stage3(Stage):
    """Ask, compile and execute for every turn, then assemble."""

    name = "stage3"
    needs = "stage2"
    makes = "candidates"
    asks = True

    def check(self) -> None:
        check_mixing(self.config)

    def expand(self, shards: "beam.PCollection[Shard | Undone]") -> "beam.PCollection[Commit | Undone]":
        import apache_beam as beam

        from pipelines.beam_runner import workers_here
        from pipelines.graph import EachShard, shard_of

        config, corpus, workers = self.config, self.corpus, workers_here(shards.pipeline.options)
        together = limits.shards_at_once(config)
        if workers:
            shards |= "Converse" >> EachShard(Converse(config, corpus, workers).run, together)
        else:
            steps = config.sampling.turns * (1 + count_rounds(corpus)) + SamplePlan.of(config).rounds - 1
            for turn in range(1, steps + 1):
                shards |= f"Ask {turn}" >> EachShard(AskTeacher(config, corpus).run, together)
                if self._on_device():
                    shards |= f"Compile {turn}" >> EachShard(Compile(config, corpus).run)
                shards |= f"Execute {turn}" >> self._hinted(EachShard(Execute(config, corpus).run))
        commits = shards | "Assemble" >> EachShard(Assemble(config, corpus).run)
        for step in self._steps(workers or 1)[1:]:
            name, run = type(step).__name__, EachShard(step.run, together)
            executes = isinstance(step, TestKernels) and not workers
            commits |= f"Before {name}" >> beam.Map(shard_of)
            commits |= name >> (self._hinted(run) if executes else run)
        return commits

    def _on_device(self) -> bool:
        return self.config.verifier.backend in DEVICE_BACKENDS

    def _hinted(self, run: "beam.PTransform") -> "beam.PTransform":
        """A step that runs kernels, for workers that have what the config says."""
        hint = self.config.cluster.accelerator if self._on_device() else ""
        return run.with_resource_hints(accelerator=hint) if hint else run

    def _steps(self, workers: int = 1) -> list[ShardStep]:
        """Those that write rows, in their order."""
        steps: list[ShardStep] = [Assemble(self.config, self.corpus)]
        if self.config.unit_tests.samples:
            steps.append(TestKernels(self.config, self.corpus, workers))
        if self.config.questions.per_task and limits.is_remote(self.config.teacher):
            steps.append(WriteQuestions(self.config, self.corpus))
        if self.config.ports.per_task:
            steps.append(PortKernels(self.config, self.corpus))
        if self.config.profiling.share:
            steps.append(ProfileKernels(self.config, self.corpus, workers))
        return steps

    def is_done(self) -> bool:
        return all(map(all_found, self._steps()))


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(lambda: run_stages([Stage3], parse_options(argv, "Stage 3: sample, verify, repair and keep.")))


if __name__ == "__main__":
    from pipelines import stage3  # by its real name, under which workers find what is defined here

    sys.exit(stage3.main())
