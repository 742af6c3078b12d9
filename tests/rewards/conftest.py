from tests.verifier.conftest import relu, relu_reference  # noqa: F401 (fixtures)
