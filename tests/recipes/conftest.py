from tests.corpus.conftest import whole_corpus  # noqa: F401 (a fixture)
