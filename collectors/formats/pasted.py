"""What stands round an answer that somebody pasted: prompts, curl's progress and headers, fences of a text."""

import re

CHATTER = re.compile(
    r"[*<>](?: |$)|[{}] \[\d|```|% Total|Dload|HTTP/\d|.{0,120}--:--:--"
    r"|[^{}]{0,80}[$#%>] ?(?:curl|wget|kubectl|http|sudo) "
)


def behind_chatter(text: str) -> str:
    """The text without the lines of that kind, and blank ones, at its beginning."""
    rest = text.lstrip()
    while (match := CHATTER.match(rest)) and "\n" in rest and match.end():
        rest = rest[rest.index("\n") + 1 :].lstrip()
    return rest
