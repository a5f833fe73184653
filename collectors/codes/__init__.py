"""Vendor codes as data: tables with source and sample, the words in a line that outrank them, and rules of context.

`table` loads, `nvidia`, `amd` and `mthreads` hold a vendor's rows, `nvidia_text` and `nvidia_links` decode what stands
after a code, `context` reads events together. Formats use the tables; whoever joins inputs applies `in_context` once.
"""

from collectors.codes.context import apply as in_context

__all__ = ["in_context"]
