"""What is kept of executions goes by the code of the function that was executed."""

import re
from pathlib import Path

import musadata
from pipelines.versions import EXECUTED, executions_name

ROOT = Path(musadata.__file__).parent


def test_every_function_that_stage_1_executes_in_a_sandbox_has_a_journal_that_is_kept():
    called = {
        module
        for room in ("sources", "mining", "tasks")
        for path in (ROOT / room).rglob("*.py")
        if "fingerprints" not in path.parts
        for module in re.findall(r'"(musadata[.\w]+):\w+"', path.read_text())
    }
    openers = {name for name in called if name.startswith("musadata.sources") and name not in EXECUTED}
    assert called - openers == set(EXECUTED)
    assert len({executions_name(f"{module}:any") for module in EXECUTED}) == len(EXECUTED)
