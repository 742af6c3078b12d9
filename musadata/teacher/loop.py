"""An asyncio loop in a thread of its own, for teachers that threads ask."""

import asyncio
import threading


def start_loop(name: str) -> asyncio.AbstractEventLoop:
    """A running loop; once it is stopped, its thread closes it and ends."""
    loop = asyncio.new_event_loop()

    def run() -> None:
        loop.run_forever()
        loop.close()

    threading.Thread(target=run, name=name, daemon=True).start()
    return loop
