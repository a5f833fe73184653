"""Text of others made fit for a terminal."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def plain(text: str) -> str:
    """`text` with control, invisible and direction characters made visible as `\\xNN` or `\\uNNNN`."""
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), text)
