"""Entry point of bin/*: makes the checkout importable, then runs the program."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rack.programs.launch import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
