"""What the cuda backend asks the driver, with a driver's tool that says what the test wants."""

import pytest

from musadata.verifier.backends.cuda import cuda_backend as backend


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Makes nvidia-smi answer with a text and an exit code."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    backend.find_device.cache_clear()
    tool = tmp_path / "nvidia-smi"

    def answer(text, code=0):
        tool.write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n")
        tool.chmod(0o755)
        return tool

    yield answer
    backend.find_device.cache_clear()


def test_device_is_what_the_driver_says(driver):
    driver("NVIDIA H200, 9.0, 580.1, GPU-1\nNVIDIA H200, 9.0, 580.1, GPU-2")
    assert backend.find_device() == backend.Device("NVIDIA H200", "90", "580.1", "GPU-1")


@pytest.mark.parametrize(
    ("memory", "seats"), [("143771 MiB", 32), ("8192 MiB", 5), ("1024 MiB", 1), ("[N/A]", 32), ("", 32)]
)
def test_as_many_candidates_at_a_time_as_there_is_memory_and_cores_for(driver, monkeypatch, memory, seats):
    driver(f"NVIDIA H200, 9.0, 580.1, GPU-1, {memory}")
    monkeypatch.setattr(backend.os, "sched_getaffinity", lambda process: range(16))
    device = backend.find_device()
    assert device is not None and device.seats == seats


def test_free_memory_of_a_device_is_what_the_driver_says(driver):
    free_share = backend.watch_memory("GPU-1")
    driver("900 MiB, 143771 MiB")
    assert 0 < free_share() < 0.01
    driver("72000 MiB, 144000 MiB")
    assert free_share() == 0.5
    driver("[N/A], [N/A]")
    assert free_share() == 1
    driver("failed", 9)
    assert free_share() == 1


def test_no_device_without_an_answer(driver):
    driver("NVIDIA-SMI has failed", 9)
    assert backend.find_device() is None


def test_lost_device_is_noticed_and_an_answer_is_believed_for_a_while(driver, monkeypatch):
    driver("GPU-1")
    is_lost = backend.watch_device("GPU-1")
    assert not is_lost()
    tool = driver("Unable to determine the device handle: GPU is lost", 15)
    assert not is_lost()
    monkeypatch.setattr(backend, "_BELIEVED_SECONDS", 0.0)
    assert is_lost()
    driver("GPU-1")
    assert not is_lost()
    tool.unlink()
    assert is_lost()
