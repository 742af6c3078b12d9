"""Where untrusted code runs: a warm process, and a fresh, locked-in fork of it for every call.

    with Sandbox(preload=("torch",), limits=Limits(seconds=20, memory_mb=4096)) as sandbox:
        outcome = sandbox.call("musadata.tasks.probing:run_reference", source, seed, files={"inputs.bin": data})
        if outcome.ok: use(outcome.value, outcome.files)   # else: outcome.status, .error_type, .message, .traceback

The named function is ours and trusted; it receives and returns JSON-able values, and runs foreign code (`exec`) itself.
Its working directory is an empty scratch folder that holds `files`; files that it leaves there come back as bytes.
It sees system folders, Python, the project and `readable=`, all read-only; no home folder, network, other processes.
`serve=` answers `ask({...})` from inside: a dict in, a dict out, of JSON values and bytes. ~20 ms a call.
Statuses: ok, error, timeout, memory, crash, output. `MUSADATA_SANDBOX=plain` switches namespaces off.
"""

from musadata.sandbox.cancellation import Cancellation, current_cancellation
from musadata.sandbox.child import ask
from musadata.sandbox.client import Sandbox, allow_plain, start_ahead
from musadata.sandbox.conversation import Conversation
from musadata.sandbox.limits import Limits, Outcome
from musadata.sandbox.remembering import Caller, RememberingSandbox
from musadata.sandbox.wire import Descriptor

__all__ = [
    "Caller",
    "Cancellation",
    "Conversation",
    "Descriptor",
    "Limits",
    "Outcome",
    "RememberingSandbox",
    "Sandbox",
    "allow_plain",
    "ask",
    "current_cancellation",
    "start_ahead",
]
