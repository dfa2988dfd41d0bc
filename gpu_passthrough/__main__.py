"""Starts the commands."""

from gpu_passthrough.cli import app

app(prog_name="python -m gpu_passthrough")
