"""The version of the keys: one number for the algorithm and the tracker list together.

It is the first byte of each fingerprint and is compared with what Redis remembers. Raise it in the same commit as any
change that gives an existing URL another canonical form; the golden tests fail until you do.
"""

from __future__ import annotations

FINGERPRINT_VERSION = "1"
"""Version of all fingerprints made by this code; a whole number from 1 to 255, as text."""

VERSION_BYTE = bytes([int(FINGERPRINT_VERSION)])


def version_of(fingerprinter: object) -> str:
    """By which code, rules and settings it makes keys; one that does not say (Scrapy's) counts as of this version."""
    return str(getattr(fingerprinter, "version", FINGERPRINT_VERSION))
