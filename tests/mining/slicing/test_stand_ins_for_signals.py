"""What much code for audio imports from scipy and librosa, without either."""

from pathlib import Path

import numpy as np
import pytest
import torch

from musadata.mining.slicing import stand_ins
from tests.mining.slicing.test_slicing import cut, run

FOLDER = Path(stand_ins.__file__).parent

SPECTRUM = """
import numpy as np
import torch
from torch import nn
from scipy.signal import get_window
from librosa.util import pad_center, tiny
import librosa.util as tools

class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        window = pad_center(get_window("hann", 4, fftbins=True), 8)
        self.register_buffer("window", torch.from_numpy(tools.normalize(window, norm=None)).float())

    def forward(self, x):
        return x * self.window + tiny(np.zeros(1, dtype=np.float32))
"""


def space_of(name: str) -> dict:
    space: dict = {}
    exec((FOLDER / f"{name}.txt").read_text(encoding="utf-8"), space)
    return space


def test_a_spectrum_needs_no_package():
    text = cut({"spectrum.py": SPECTRUM}, "spectrum.py", "Spectrum")
    assert "scipy" not in text and "librosa" not in text
    assert torch.allclose(run(text)["Model"]()(torch.ones(8)), torch.tensor([0, 0, 0, 0.5, 1, 0.5, 0, 0]))


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", ("kaiser", 5.0)])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_are_those_of_torch(name, periodic):
    made = space_of("scipy.signal")["get_window"](name, 17, fftbins=periodic)
    kind, *parameters = (name,) if isinstance(name, str) else name
    named = {"hann": "hann_window", "hamming": "hamming_window", "blackman": "blackman_window"}
    named |= {"bartlett": "bartlett_window", "kaiser": "kaiser_window"}
    wanted = getattr(torch, named[kind])(17, periodic, *parameters, dtype=torch.float64)
    assert np.allclose(made, wanted.numpy(), atol=1e-12)


@pytest.mark.parametrize("htk", [True, False])
@pytest.mark.parametrize("norm", ["slaney", None])
def test_filters_are_triangles_between_centres_that_rise_on_the_mel_scale(htk, norm):
    filters = space_of("librosa.filters")["mel"](sr=16000, n_fft=512, n_mels=20, fmin=50, htk=htk, norm=norm)
    peaks = filters.argmax(axis=1)
    assert filters.shape == (20, 257)
    assert (np.diff(peaks) >= 0).all() and (filters >= 0).all() and (filters.max(axis=1) > 0).all()
    areas = filters.sum(axis=1) * (16000 / 512)
    assert norm is None or np.allclose(areas[8:], 1, rtol=0.1)
