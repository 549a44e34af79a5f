"""Command line."""

import sys

from devcluster.errors import DevclusterError
from devcluster.programs import Programs


def main() -> int:
    try:
        if sys.argv[1] == "build":
            Programs.default().build_all(sys.argv[2:] or None)
    except DevclusterError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0
