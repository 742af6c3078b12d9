from tests.rewards.test_scoring import truth  # noqa: F401 (fixtures)
from tests.verifier.conftest import relu, relu_reference  # noqa: F401
