"""Calls that only report something: output, logs and telemetry. A reference has none of them, and no loggers."""

import ast
import re

from musadata.mining.reading.dotted_names import last_name

# Output, telemetry, and what a base class that is dropped would do.
REPORTING = re.compile(
    r"(.*\.)?(_log_api_usage_once|save_hyperparameters|print|rank_zero_(debug|info|warn|deprecation))"
    r"|(warnings\.)?warn"
    r"|(.*\.)?\w*log(ger|ging)?\d*\.(debug|info|warn|warning|error|critical|exception|fatal|log|setLevel|addHandler"
    r"|(debug|info|warn|warning|error|log)_once|log_(metrics|scalar))",
    re.IGNORECASE,
)
MAKING_LOGGER = re.compile(r"(get|make|create|setup|init|build)(_?\w+)??_?logg(er|ing)", re.IGNORECASE)


def only_reports(name: str) -> bool:
    """Whether a call of this dotted name, as a statement, computes nothing."""
    return REPORTING.fullmatch(name) is not None


def is_logger(node: ast.stmt) -> bool:
    """`logger = get_logger(__name__)`."""
    return (
        isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and MAKING_LOGGER.fullmatch(last_name(node.value.func)) is not None
    )
