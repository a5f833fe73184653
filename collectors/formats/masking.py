"""Strikes out what looks like a secret in what people start their programs with."""

import re

MAX_CHARACTERS = 20_000
_SECRET = re.compile(r"(?i)(token|secret|passw|credential|api[_-]?key|auth)")


def masked(words: list[str]) -> list[str]:
    """Arguments with what follows a name such as `--token` or `--api-key=` struck out."""
    found: list[str] = []
    strike = False
    for word in " ".join(words)[:MAX_CHARACTERS].split():
        key, equals, _ = word.partition("=")
        if strike and not word.startswith("-"):
            found.append("***")
            strike = False
            continue
        secret = bool(_SECRET.search(key))
        strike = secret and not equals and key.startswith("-")
        found.append(f"{key}=***" if secret and equals else word)
    return found
