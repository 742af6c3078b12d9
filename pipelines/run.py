"""Running stages: skip what is done, show how far they are, and publish what they made."""

import sys
from collections.abc import Sequence

from musadata.corpus.manifest import MANIFEST, create_corpus, open_corpus
from musadata.corpus.publish import publish
from musadata.storage.commits import COMMITS
from musadata.storage.files import join, list_names, survey
from musadata.storage.lock import lock_corpus
from musadata.teacher import TEACHERS
from musadata.verifier.backend_choice import check_backend
from musadata.verifier.compilation.build_cache import remove_half_built
from musadata.verifier.policies import load_policy
from pipelines import journals, limits, resources
from pipelines.estimates import print_estimates
from pipelines.options import RunOptions
from pipelines.outcome import check_disks, remarks_on_failures, reopen_failed, require_rows
from pipelines.progress import JournalCounter, Watch, Watched
from pipelines.retries import begin_round
from pipelines.stage import Stage
from pipelines.worker import warm_workers


def run_stages(kinds: Sequence[type[Stage]], options: RunOptions) -> None:
    """Run stages that follow each other on whatever runner was asked for, unless all of them are committed already.

    They are one pipeline: a worker takes a shard as far as it can, and keeps what it has opened from stage to stage.

    Raises:
        MusadataError: the corpus is not one, or what the first stage needs is not complete.
    """
    config, corpus = options.config, options.corpus
    stages = [kind(config, corpus) for kind in kinds]
    if options.dry_run:
        print_estimates(config, corpus, [stage.name for stage in stages if stage.asks])
        return
    for stage in stages:
        stage.check()
    if stages[0].needs:
        open_corpus(corpus, stages[0].needs, shards=config.shards)
    else:
        create_corpus(corpus)
    with lock_corpus(corpus):  # so that nobody else changes what is looked at once
        with survey(corpus, _is_record):
            for stage in stages:
                stage.prepare()
            asking = [stage.name for stage in stages if stage.asks]
            if options.retry_failed:
                reopen_failed(corpus, asking)
            done = all(stage.is_done() for stage in stages)
            if options.retry_buffer and "stage3" in asking:
                done = not _begin_round(corpus, done) and done
            if done:
                for stage in stages:
                    print(f"{stage.name}: up to date", file=sys.stderr)
                _finish(stages, options)
        if not done:
            with warm_workers(options.arguments, _modules(stages, options), _preload(stages, options)):
                _start(options, asks=bool(asking))
                _run(stages, options)
            with survey(corpus, _is_record):
                _finish(stages, options)


def _modules(stages: Sequence[Stage], options: RunOptions) -> list[str]:
    """What every worker imports."""
    asked = (TEACHERS[options.config.teacher.kind].module, "musadata.verifier.verifier", "musadata.tracing.task")
    harness = "apache_beam.runners.worker.sdk_worker_main"
    return [harness, *(type(one).__module__ for one in stages), *(asked if any(one.asks for one in stages) else ())]


def _preload(stages: Sequence[Stage], options: RunOptions) -> tuple[str, ...]:
    """What the first stage's sandboxes import."""
    return resources.reference_preload(options.config.teacher.kind) if stages[0].asks else ("torch",)


def _begin_round(corpus: str, done: bool) -> bool:
    """Begin a round of retries, unless there is work left from before."""
    waiting = begin_round(corpus) if done else 0
    said = f"{waiting} tasks wait for a retry" if done else "what was begun is completed first: --retry-buffer again"
    print(f"stage3: {said}", file=sys.stderr)
    return waiting > 0


def _is_record(path: str) -> bool:
    """Whether a file of a corpus is read to find what is done."""
    return path == MANIFEST or (path.startswith("_") and path.endswith(".json"))


def _finish(stages: Sequence[Stage], options: RunOptions) -> None:
    corpus = options.corpus
    manifest = publish(corpus, options.config, shards=options.config.shards)
    for stage in stages:
        for remark in (*stage.remarks(), *remarks_on_failures(corpus, manifest, stage.name)):
            print(f"{stage.name}: {remark}", file=sys.stderr)
    for stage in stages:
        require_rows(corpus, manifest, stage.name, stage.makes)


def _start(options: RunOptions, *, asks: bool) -> None:
    """Look for what the run needs, and let it begin without what earlier runs of this process have left."""
    from pipelines.beam_runner import runs_here

    here = runs_here(options.arguments)
    resources.forget_teachers()
    if here:
        remove_half_built()
    load_policy(options.config.verifier.policy)
    if options.preflight:
        check_disks(options.corpus, here=here)
        if here:
            check_backend(options.config.verifier)
        if asks:
            resources.check_server(options.config)
    if limits.is_remote(options.config.teacher):
        journals.forget_failures(options.corpus)


def _run(stages: Sequence[Stage], options: RunOptions) -> None:
    from pipelines.beam_runner import runs_here
    from pipelines.cluster_jobs import await_earlier_job, with_job_name
    from pipelines.graph import run_graph

    arguments = options.arguments
    if not runs_here(arguments):
        arguments = with_job_name(arguments, options.corpus)
        if await_earlier_job(arguments) and all(stage.is_done() for stage in stages):
            return
    with Watch([_watched(stage) for stage in stages]):
        run_graph(stages, arguments)


def _watched(stage: Stage) -> Watched:
    corpus, journal = stage.corpus, JournalCounter(stage.corpus, stage.name)

    def count() -> tuple[int, str]:
        done = sum(name.endswith(".json") for name in list_names(join(corpus, COMMITS, stage.name)))
        return done, journal()

    return Watched(stage.name, stage.config.shards, count)
