"""The physical world as a pure model: no input or output, no threads, no clock of its own."""
