"""Text of others made fit to be looked at: on a terminal, in a page, in an alert."""

import re

# Controls; what is invisible, or turns the direction of what follows; halves of pairs, and what is no character.
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufffe\uffff]"
)
_UNSEEN_RUN = re.compile(f"(?:{_UNSEEN.pattern})+")
_OPENING = re.compile(r"([{}%])(?=[{}%])")
_ANGLES = str.maketrans("<>", "‹›")  # <!channel> and <http://...> act in chat systems


def plain(text: object) -> str:
    """`text` on one line, with control, invisible and direction characters made visible as `⟨U+202E⟩`.

    No backslashes: programs that draw would read them as characters again.
    """
    return _UNSEEN.sub(lambda match: f"⟨U+{ord(match.group()):04X}⟩", str(text))


def harmless(text: str, limit: int) -> str:
    """One line of at most `limit` characters that is nothing but text to templates, chats and terminals."""
    line = _OPENING.sub(r"\1 ", _UNSEEN_RUN.sub(" ", text[: 2 * limit]).translate(_ANGLES)).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"
