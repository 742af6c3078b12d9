"""What code in the sandbox may read."""

from musadata.sandbox.confine import readable_folders


def test_packages_are_readable_wherever_python_finds_them(tmp_path, monkeypatch):
    packages, project = tmp_path / "of_my_own", tmp_path / "project"
    (packages / "einops-0.8.dist-info").mkdir(parents=True)
    for folder in (packages, project):
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.syspath_prepend(str(folder))
    assert str(packages) in readable_folders()
    assert str(project) not in readable_folders()
