"""`python -m sickbay`."""

import sys

from sickbay.cli import main

sys.exit(main())
