"""Strikes out what looks like a secret in command lines, environments and messages before they go anywhere.

A secret is what follows a name such as `--token`, `api_key=` or `"password":`, the user part of an address, what
follows `Bearer`, and what has the shape of a well-known service's token. Counts of tokens and tokenizers are none.
"""

import re
from collections.abc import Sequence

MAX_CHARACTERS = 20_000
STRUCK = "***"
_WORD = (
    r"(?:token(?!s\b|s[_=-]|i[sz])|secret|passw(?:or)?d|passphrase|credential|pwd(?![\w-])|auth(?:orization)?(?![a-z])"
    r"|(?:api|access|private|ssh|auth|account|license|signing|encryption|wandb)[_-]?key)"
)
_NAME = rf"[\w.-]{{0,200}}{_WORD}[\w.-]{{0,200}}"
_VALUE = r"(?:\"[^\"]{0,4000}(?:\"|$)|'[^']{0,4000}(?:'|$)|(?:(?:bearer|basic|token)\s{1,3})?[^\s,;&'\"}\])]{1,4000})"
_NAMED = re.compile(rf"(?i)(?<![\w.-])({_NAME}(?:\\?[\"'])?\s{{0,3}}[=:]\s{{0,3}}\\?){_VALUE}")
_OPTION = re.compile(rf"(?i)(?<![\w-])(-{{1,2}}{_NAME}(?:[\"']\s{{0,3}},\s{{0,3}}|\s{{1,3}}))(?!-){_VALUE}")
_USER = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://)(?!git@)[^\s/@'\"]{1,2000}@")
_BEARER = re.compile(r"(?i)\b(bearer\s{1,3})[\w.~+/=-]{8,4000}")
_SHAPES = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abeprs]-|AKIA|ASIA|nvapi-|dckr_pat_|npm_|eyJ[\w-]{8,400}\.)"
    r"[\w.-]{12,4000}"
)
_SUSPECTS = (  # one of which stands in every text that the patterns change: a hundred times faster than they are
    "token", "secret", "passw", "passphrase", "credential", "pwd", "auth", "key", "://", "bearer", "hf_", "ghp_",
    "gho_", "ghu_", "ghs_", "ghr_", "_pat_", "glpat-", "sk-", "xox", "akia", "asia", "nvapi-", "npm_", "eyj",
)  # fmt: skip
_ONLY_OPTION = re.compile(rf"(?i)^-{{1,2}}{_NAME}$")
_ONLY_NAMED = re.compile(rf"(?i)^(-{{0,2}}{_NAME}[=:]).+$", re.DOTALL)


def struck(text: str) -> str:
    """The text with its secrets struck out; the same object where nothing looks like one."""
    low = text.lower()
    if not any(suspect in low for suspect in _SUSPECTS):
        return text
    text = _USER.sub(rf"\1{STRUCK}@", text)
    for pattern in (_NAMED, _OPTION, _BEARER):
        text = pattern.sub(rf"\1{STRUCK}", text)
    return _SHAPES.sub(STRUCK, text)


def masked(words: Sequence[str]) -> list[str]:
    """Arguments with their secrets struck out; each word may be a whole shell command itself."""
    found: list[str] = []
    strike, left = False, MAX_CHARACTERS
    for word in words:
        word, left = word[:left], left - len(word)
        if strike and not word.startswith("-"):
            found.append(STRUCK)
            strike = False
        else:
            strike = bool(_ONLY_OPTION.match(word))
            whole = _ONLY_NAMED.match(word)
            found.append(f"{whole[1]}{STRUCK}" if whole else struck(word))
        if left <= 0:
            break
    return " ".join(found).split()
