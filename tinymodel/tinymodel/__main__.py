"""`python -m tinymodel`."""

import sys

from tinymodel.cli import main

sys.exit(main())
