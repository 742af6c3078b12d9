"""What the cuda backend asks the driver, with a driver's tool that says what the test wants."""

import pytest

from musadata.verifier.cuda import backend


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
