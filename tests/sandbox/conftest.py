import os

import pytest

from musadata.sandbox import Limits, Sandbox, client

SMALL = Limits(seconds=2, memory_mb=512, processes=16, output_kb=16, file_mb=16)


@pytest.fixture(autouse=True)
def no_template(monkeypatch):
    """A command that another test has run in this process leaves a template, from which sandboxes would be forked."""
    monkeypatch.setattr(client, "_templates", [])


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(preload=("torch",), limits=SMALL) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def walled(sandbox):
    if not sandbox.namespaces:
        pytest.skip("this system has no namespaces")
    return sandbox


@pytest.fixture(scope="module")
def plain():
    os.environ["MUSADATA_SANDBOX"] = "plain"
    try:
        with Sandbox(preload=(), limits=SMALL) as sandbox:
            yield sandbox
    finally:
        del os.environ["MUSADATA_SANDBOX"]
