"""The benchmark of many tasks runs to its end, at toy size."""

import json

from benchmarks.million_tasks import main


def test_benchmark_of_many_tasks_runs_to_its_end(tmp_path):
    main(["--tasks", "300", "--output", str(tmp_path / "found.json")])
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert rows and not any("Error" in str(row) for row in rows)
