"""``python -m orchconverge``."""

from orchconverge.cli import main

if __name__ == "__main__":
    main()
