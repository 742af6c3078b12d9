"""A server that does not answer for a while, as when it is started anew: it is waited for, and said so once."""

import sys
import time

_LONGEST_UNSEEN_S = 20.0  # of a server that has never answered: its address may be wrong


class Absence:
    """Since when a server has not answered.

    Attributes:
        longest_s: how long it is waited for; less if it has never answered.
    """

    def __init__(self, longest_s: float, url: str):
        self._asked_s, self._url = longest_s, url
        self._is_known = False
        self._since: float | None = None
        self._said = False

    @property
    def longest_s(self) -> float:
        return self._asked_s if self._is_known else min(self._asked_s, _LONGEST_UNSEEN_S)

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
        self._since, self._said, self._is_known = None, False, True
