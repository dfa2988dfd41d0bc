"""`python -m rack`: start, stop and look at the simulated rack."""

from rack.cli import main

if __name__ == "__main__":
    main()
