"""What the program knows without creating anything: configuration, compatibility, placement."""
