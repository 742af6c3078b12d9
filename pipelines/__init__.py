"""The stages as Apache Beam pipelines: thin steps over `musadata`, which holds all the logic and knows no Beam."""

import logging

# Beam says on import that Google's storage client is absent, which only concerns those who use it.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())
