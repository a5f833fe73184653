"""The reason of a hold, as it may be written into a scheduler and is known again: it begins `sickbay <action id>`.

Without that beginning whoever else holds the node is left alone. Schedulers show reasons in tables and in lines of
`Key=value`, so nothing in one may look like a quote, a field or another signature.
"""

import re

MAX_REASON = 240  # characters. Slurm names no limit; its tables and those of other tools cut far below this
_OURS = re.compile(r"sickbay[ :]([A-Za-z0-9][A-Za-z0-9._-]{0,63})(?: |$)")
_UNFIT = re.compile(r"[^!#%&()*+,./0-9:;<>?@A-Z\\^_a-z{}~ -]+")  # all but printable ASCII without quotes, = [ ] | $ `


def ours(reason: str) -> str | None:
    """The id of the action that set a reason, None where it was not one of ours."""
    match = _OURS.match(reason)
    return match[1] if match else None


def cleaned(text: str) -> str:
    """One line of printable ASCII without quotes, brackets, `=`, `|` and `$`, at most MAX_REASON characters."""
    return " ".join(_UNFIT.sub(" ", text[: 4 * MAX_REASON]).split())[:MAX_REASON].rstrip()
