"""A server that does not answer for a while, as when it is started anew: it is waited for, and said so once."""

import sys
import time


class Absence:
    """Since when a server has not answered.

    Attributes:
        longest_s: how long it is waited for.
    """

    def __init__(self, longest_s: float, url: str):
        self.longest_s, self._url = longest_s, url
        self._since: float | None = None
        self._said = False

    def missed(self, why: str) -> bool:
        """Note that there was no server: whether to go on waiting."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        away_s = now - self._since
        if away_s > self.longest_s:
            return False
        if not self._said and away_s > 0:
            self._said = True
            text = f"no server answers at {self._url} ({why}): waiting for it, up to {self.longest_s:g} s"
            print(f"musadata: {text} (requests.wait_seconds)", file=sys.stderr, flush=True)
        return True

    def replied(self) -> None:
        """Note that the server is there."""
        if self._said and self._since is not None:
            away_s = time.monotonic() - self._since
            print(f"musadata: {self._url} answers again after {away_s:.0f} s", file=sys.stderr, flush=True)
        self._since, self._said = None, False
