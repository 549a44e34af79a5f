"""`python -m engine_operator`."""

import sys

from engine_operator.cli import main

sys.exit(main())
