"""Moore Threads codes: 32-bit numbers in the kernel log. The few published ones are in `mthreads.toml`."""

from functools import cache

import msgspec

from collectors.codes.table import Code, toml, unknown


@cache
def codes() -> dict[int, Code]:
    """The published rows by code."""
    return {
        int(key, 16): msgspec.convert(row | {"code": int(key, 16), "source": "mthreads_notes"}, Code)
        for key, row in toml("mthreads.toml").items()
    }


def code(number: int) -> Code:
    """The row of a code; any integer is answered."""
    return codes().get(number) or unknown(number)
