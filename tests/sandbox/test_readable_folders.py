"""What code in the sandbox may read."""

from musadata.sandbox.confine import readable_folders


def test_packages_are_readable_wherever_python_finds_them(tmp_path, monkeypatch):
    packages, project = tmp_path / "lib" / "site-packages", tmp_path / "project"
    for folder in (packages, project):
        folder.mkdir(parents=True)
        monkeypatch.syspath_prepend(str(folder))
    assert str(packages) in readable_folders()
    assert str(project) not in readable_folders()
