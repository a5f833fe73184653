"""Text of sources made fit to be looked at."""

import re

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)


def plain(text: object) -> str:
    """Text with control, invisible and direction characters made visible as `⟨U+202E⟩`."""
    return _UNSEEN.sub(lambda match: f"⟨U+{ord(match.group()):04X}⟩", str(text))
