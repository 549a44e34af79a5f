"""`python -m nllb_predictor` is the command line."""

import sys

from nllb_predictor.cli import main

sys.exit(main())
