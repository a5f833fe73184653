"""The test that ends a hold at a simulated site: `python node_test.py URL NODE` passes where all its cards answer."""

import sys
import urllib.request

CARDS, TIMEOUT_S = 8, 5.0


def cards(url: str) -> int:
    """How many accelerators the exporter at `url` gives a temperature of; 0 where it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            return sum(line.startswith(b"DCGM_FI_DEV_GPU_TEMP{") for line in answer)
    except OSError:
        return 0


if __name__ == "__main__":
    found = cards(f"{sys.argv[1]}/{sys.argv[2]}/accelerators")
    print(f"{found} of {CARDS} accelerators answer")
    sys.exit(found != CARDS)
