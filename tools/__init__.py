"""Makes the programs available that the project runs: found, cached, downloaded or built."""
