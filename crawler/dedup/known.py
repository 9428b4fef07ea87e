"""Fingerprints this process knows to be seen, so that the same link on every page costs nothing.

Only "seen" may be remembered here: it stays true until the server's memory loses or forgets something, and then the
memory's epoch, which comes with each reply, is another one.
"""

from __future__ import annotations


class KnownSeen:
    """The `size` or so most recently used of the fingerprints given to :meth:`add`; 0 remembers none.

    Two sets instead of a linked list: the younger one takes what is added or asked for, and when it holds half of
    `size` it becomes the older one, whose predecessor is dropped.
    """

    def __init__(self, size: int) -> None:
        self._half = (size + 1) // 2
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._epoch: object = None
        self._doubtful = False  # the latest answers may be older than what was forgotten with them

    def __len__(self) -> int:
        return len(self._young | self._old)

    def seen(self, fingerprint: bytes) -> bool:
        """Whether it is known to be seen; False says nothing."""
        if fingerprint in self._young:
            return True
        if fingerprint in self._old:
            self.add(fingerprint)
            return True
        return False

    def add(self, fingerprint: bytes) -> None:
        """Remember that the server answered "seen", or recorded it; not if the same reply brought another epoch."""
        if not self._half or self._doubtful:
            return
        self._young.add(fingerprint)
        if len(self._young) >= self._half:
            self._young, self._old = set(), self._young

    def sync(self, epoch: object) -> None:
        """To be called with the epoch of each reply before its verdicts are added: another one drops everything.

        The verdicts of such a reply are not remembered either: they may have been given just before something was
        forgotten. Whatever tells two states of the server apart may be part of `epoch`, such as its run id.
        """
        self._doubtful = epoch != self._epoch and self._epoch is not None
        if epoch != self._epoch:
            self._epoch = epoch
            self._young.clear()
            self._old.clear()
