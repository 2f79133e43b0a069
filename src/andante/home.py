"""The thread and the event loop to which an admission belongs at the moment."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from andante.wake import NoHost, host, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from andante.clock import Clock
    from andante.wake import Host


class Home:
    """Where an admission lives: one thread, and in it one event loop after the other.

    Attributes:
        here: what identifies the event loop; None before the first one.
        host: that event loop, as far as waking is concerned.
        given_clock: the clock that replaces the event loops' own, or None.
    """

    __slots__ = ("given_clock", "here", "host", "thread")

    def __init__(self, clock: Clock | None) -> None:
        self.given_clock = clock
        self.here: object = None
        self.thread = get_ident()
        self.host: Host = NoHost(self.thread, clock or _unset)

    def is_here(self) -> bool:
        """Whether this is the event loop that runs."""
        here = running()
        return here is self.here or here == self.here

    def elsewhere(self) -> bool:
        """Whether we are in another thread."""
        return get_ident() != self.thread

    def comes_along(self) -> bool:
        """Whether what was taken before any loop ran stays valid in one that runs now."""
        return isinstance(self.host, NoHost) and not self.elsewhere()

    def move(self, look: Callable[[], None]) -> None:
        """From now on, the event loop that runs. `look` is what its alarm calls."""
        self.here = running()
        self.thread = get_ident()
        self.host = host(look, self.given_clock)

    def hand_over(self, function: Callable[[], None]) -> bool:
        """From another thread: run `function` in the event loop's. False where there is none any more."""
        if isinstance(self.host, NoHost):
            return False
        try:
            self.host.call_soon(function)
        except RuntimeError:
            return False  # it has just ended, and with it who waited
        return True


def _unset() -> float:
    raise RuntimeError("the clock is chosen at first use")
