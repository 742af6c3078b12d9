"""A corpus on disk: its datasets, its manifest, and what readers make of them.

Everything is addressed by `corpus` (a path or URL, as a string), a dataset's name and a `Shard(index, count)`.

Make a corpus with `create_corpus` of `manifest`. A stage writes each shard with `musadata.storage.shards` and commits
it with `musadata.storage.commits`; `pipelines/steps.py` shows how. `publish` of `publish` writes the manifest, the
dataset card, the loaders' descriptions and the report at the end of a stage, and deletes the files of killed and
superseded attempts. A dataset that starts with an underscore (`_probed`) is private to the stages: committed and
resumed like any other, but absent from manifest and views.

Read a corpus with `connect` of `query`, which gives a DuckDB connection with a view per dataset.
"""
