"""From a reference to its aten graph, as plain JSON values. Runs untrusted code, so inside the sandbox only.

`capture.capture` is the way in; `ir.captured_graph.parse_graph` reads what it returns, outside of the sandbox.
"""

CAPTURE = "musadata.compiler.capturing.capture:capture"
PRELOAD = ("torch", "musadata.compiler.capturing.capture_preload")  # modules for the sandbox to import once
