"""Stand-in of the GPU Operator's chart: its names and values, and templates of our own."""
