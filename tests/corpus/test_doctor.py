"""The doctor finds what is broken and says what to do."""

import json
from types import SimpleNamespace

import pytest

from musadata import sandbox
from musadata.commands import doctor
from musadata.commands.cli import main
from musadata.commands.doctor import Check, Health, check_corpus
from musadata.errors import MusadataError
from musadata.verifier.backends.cuda import cuda_backend, nvcc
from musadata.verifier.compilation import host_toolchain as toolchain


@pytest.fixture(autouse=True)
def no_machine(monkeypatch):
    monkeypatch.setattr(doctor, "MACHINE", ())


def test_a_whole_corpus_is_good(own_corpus):
    assert [check.health for check in check_corpus(str(own_corpus))] == [Health.GOOD, Health.GOOD]
    assert main(["doctor", str(own_corpus)]) == 0


def test_a_flipped_byte_is_found_by_its_hash(own_corpus, capsys):
    path = next((own_corpus / "candidates").glob("*.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert main(["doctor", str(own_corpus)]) == 2
    out = capsys.readouterr().out.replace("\n", "")
    assert "SHA-256" in out and "pipelines.stage3" in out


def test_a_manifest_that_does_not_fit_the_commits_is_found(own_corpus):
    manifest = json.loads((own_corpus / "manifest.json").read_text())
    manifest["datasets"]["tasks"]["shards"].pop()
    (own_corpus / "manifest.json").write_text(json.dumps(manifest))
    assert check_corpus(str(own_corpus))[-1].health is Health.BROKEN


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"datasets": []}', '{"datasets": {"tasks": {}}}'])
def test_a_torn_or_absent_manifest_is_found(own_corpus, content):
    (own_corpus / "manifest.json").unlink()
    if content is not None:
        (own_corpus / "manifest.json").write_text(content)
    last = check_corpus(str(own_corpus))[-1]
    assert last.health is Health.BROKEN and last.remedy


def test_no_corpus_is_one_line(tmp_path, capsys):
    assert main(["doctor", str(tmp_path / "absent")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_the_machine_is_described():
    for check in doctor.MACHINE:
        found = check()
        assert isinstance(found, Check) and found.detail
        assert found.remedy or found.health is Health.GOOD


def test_a_missing_compiler_is_broken_and_has_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(toolchain, "find_toolchain", toolchain.find_toolchain.__wrapped__)
    monkeypatch.setenv("CXX", "/no/such/compiler")
    found = doctor.check_emulated()
    assert found.health is Health.BROKEN and "/no/such/compiler" in found.detail and "install" in found.remedy
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert "does not run" in doctor.check_emulated().detail


def test_a_machine_without_namespaces_has_a_remedy(monkeypatch):
    def refuse(_):
        raise MusadataError("this system gives no namespaces", where="sandbox", remedy="allow user namespaces")

    monkeypatch.setattr(sandbox.Sandbox, "__enter__", refuse)
    found = doctor.check_sandbox()
    assert found.health is Health.MISSING and "no namespaces" in found.detail and "allow" in found.remedy


def test_a_backend_that_is_not_there_names_all_that_it_lacks(monkeypatch):
    def lack(_):
        raise MusadataError("no nvcc", where="cuda backend", remedy="install a CUDA toolkit")

    monkeypatch.setattr(cuda_backend, "find_device", lambda: None)
    monkeypatch.setattr(nvcc, "find_nvcc", lack)
    found = doctor.check_cuda()
    assert found.health is Health.MISSING
    assert "no NVIDIA GPU" in found.detail and "no nvcc" in found.detail
    assert "CUDA toolkit" in found.remedy and "emulated" in found.remedy


@pytest.mark.parametrize(("free", "health"), [(199, Health.BROKEN), (1999, Health.MISSING), (5000, Health.GOOD)])
def test_doctor_looks_for_room_in_all_places_that_a_run_writes_to(tmp_path, monkeypatch, free, health):
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=free << 20))
    found = doctor.check_space()
    assert found.health is health and f"{free:,} MB free" in found.detail
    assert ("MUSADATA_CACHE" in found.remedy) == (health is not Health.GOOD)
    (tmp_path / "file").touch()
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path / "file" / "cache"))
    assert doctor.check_space().health is Health.BROKEN
