"""The functions of the sandboxed side that the trusted side has called, by name: it never imports them."""

COUNT_ACCESSES = "musadata.verifier.sandboxed.count_accesses:count_accesses"
CONSTRUCTOR_ARGUMENTS = "musadata.verifier.sandboxed.oracle:encode_arguments"
DERIVE_SHAPES = "musadata.verifier.sandboxed.derived_shapes:derive_shapes"
IMPORT_CANDIDATE = "musadata.verifier.sandboxed.execute:import_candidate"
RUN_CANDIDATE = "musadata.verifier.sandboxed.execute:run_candidate"
RUN_REFERENCE = "musadata.verifier.sandboxed.oracle:run_without_devices"
RUN_UNIT_TEST = "musadata.verifier.sandboxed.unit_test:run_unit_test"
TIME_REFERENCE = "musadata.verifier.sandboxed.measure:serve_reference"


def module_of(entry_point: str) -> str:
    """The module to import once, before processes are forked for calls."""
    return entry_point.partition(":")[0]
