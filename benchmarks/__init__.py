"""Benchmarks: ratios against a floor, measured in one run. `python -m benchmarks core`."""
