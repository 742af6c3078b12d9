"""Packages that a source names may give code to its references; what cannot be had is a reason, not an error."""

import io
import zipfile

import pytest

from musadata.config import SourceConfig, SourceType
from musadata.errors import MusadataError
from musadata.mining.miner import Miner
from musadata.records import Draft
from musadata.sandbox import Sandbox
from musadata.sources import dependencies, open_source
from musadata.sources.dependencies import Dependencies
from musadata.sources.releases import Release

LAYERS = b"""
import torch
from torch import nn
from .functions import scale
from layerlib import missing


class Scaled(nn.Module):
    def forward(self, x):
        return scale(x)


class Unused(nn.Module):
    def forward(self, x):
        return missing(x)
"""
FUNCTIONS = b"def scale(x):\n    return x * 3\n\n\nraise SystemExit  # nothing of a dependency is imported\n"
NET = """
from layerlib.layers import Scaled
from torch import nn
from absent import other


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scaled = Scaled()

    def forward(self, x):
        return self.scaled(x).tanh()


class Other(nn.Module):
    def forward(self, x):
        return other(x)
"""


def wheel(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return data.getvalue()


LAYERLIB = {
    "layerlib/__init__.py": b"",
    "layerlib/layers.py": LAYERS,
    "layerlib/functions.py": FUNCTIONS,
    "tests/__init__.py": b"",
    "layerlib-1.0.dist-info/METADATA": b"Name: layerlib\nLicense: MIT\n",
}


@pytest.fixture
def index(monkeypatch):
    """Pin -> the bytes that an index has for it."""
    served = {"layerlib==1.0": wheel(LAYERLIB)}

    def fetch(_index, name, version, *, wheel):
        pin = f"{name}=={version}"
        if pin not in served:
            raise MusadataError(f"the index has no version {version}")
        return Release(f"{name}-{version}-py3-none-any.whl", "", ""), served[pin]

    monkeypatch.setattr(dependencies, "fetch_release", fetch)
    dependencies._fetch.cache_clear()
    dependencies.open_dependencies.cache_clear()
    yield served
    dependencies._fetch.cache_clear()
    dependencies.open_dependencies.cache_clear()


def mine(folder, *pins):
    (folder / "net.py").write_text(NET)
    config = SourceConfig(SourceType.DIRECTORY, path=str(folder), license="Apache-2.0", dependencies=pins)
    source = open_source(config, seed=1)
    with Sandbox(preload=("torch",)) as sandbox:
        found = [item for unit in source.units() for item in Miner(source).drafts(unit, sandbox)]
    return source, {getattr(item, "name", "") or item.origin.rpartition(":")[2]: item for item in found}


def test_a_reference_holds_the_code_of_a_dependency_and_says_so(tmp_path, index):
    source, found = mine(tmp_path, "layerlib==1.0", "absent==2.0")
    draft = found["Net"]
    assert isinstance(draft, Draft) and "class Scaled" in draft.reference and "layerlib" not in draft.reference
    assert draft.provenance.license == "Apache-2.0 AND MIT" and draft.provenance.packages == ("layerlib==1.0",)
    assert source.units() == ["net.py"]  # the dependency itself is not mined
    lost = found["16-18"]
    assert (lost.reason, lost.detail) == ("needs_package", "absent.other (absent==2.0: the index has no version 2.0)")


def test_without_dependencies_nothing_is_fetched(tmp_path, index, monkeypatch):
    monkeypatch.setattr(dependencies, "fetch_release", None)
    _, found = mine(tmp_path)
    assert {item.reason for item in found.values()} == {"needs_package"}


def test_the_revision_says_what_could_not_be_had(tmp_path, index):
    (tmp_path / "net.py").write_text(NET)

    def revision():
        dependencies.open_dependencies.cache_clear()
        config = SourceConfig(SourceType.DIRECTORY, path=str(tmp_path), dependencies=("late==1.0",))
        return open_source(config, seed=1).revision

    before = revision()
    index["late==1.0"] = wheel({"late/__init__.py": b""})
    assert before != revision()


@pytest.mark.parametrize("data", [b"no archive", b""])
def test_a_bad_archive_or_pin_is_a_reason(index, data):
    index["bad==1.0"] = data
    found = Dependencies(("bad==1.0", "unpinned", "layerlib==1.0"))
    assert "cannot be read" in found.problem("bad.part")
    assert "no version" in found.problem("unpinned")
    assert found.names == {"layerlib"} and not found.problem("layerlib")


def test_files_keep_their_own_licences(index):
    index["layerlib==1.0"] = wheel({**LAYERLIB, "layerlib/gpl.py": b"# SPDX-License-Identifier: GPL-3.0-only\n"})
    found = Dependencies(("layerlib==1.0",))
    licenses = {path: found.license_of(path) for path in found.paths()}
    assert licenses["site-packages/layerlib/gpl.py"] == "GPL-3.0-only"
    assert licenses["site-packages/layerlib/layers.py"] == "MIT"
    assert not found.holds("site-packages/tests/__init__.py")
