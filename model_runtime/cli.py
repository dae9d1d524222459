"""`cua-runtime`: checkpoints and what they hold, without a server."""

import sys


def main() -> None:
    """Run the command line."""
    sys.exit("cua-runtime: no command yet")


if __name__ == "__main__":
    main()
