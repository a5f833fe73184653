"""MetaX codes: numbered error messages (EID) in the kernel log. The published ones are in `metax.toml`."""

from functools import cache

import msgspec

from collectors.codes.table import Code, toml, unknown

EXCEPTION = 0x2102
MEMORY = 0x1  # bit of an exception's error_type: a memory error reached the core


@cache
def codes() -> dict[int, Code]:
    """The published rows by code."""
    return {
        int(key, 16): msgspec.convert(row | {"code": int(key, 16), "source": "metax_eids"}, Code)
        for key, row in toml("metax.toml").items()
    }


def code(number: int) -> Code:
    """The row of a code; any integer is answered."""
    return codes().get(number) or unknown(number)
