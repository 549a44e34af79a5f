"""`python -m tests.support.serval`; see `cli`."""

import sys

from tests.support.serval.cli import main

sys.exit(main())
