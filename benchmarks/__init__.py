"""What andante costs, next to its peers: `python -m benchmarks` (or `make bench`) prints every row and its bound."""
