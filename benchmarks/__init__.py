"""Lakeward beside its peers: `python -m benchmarks`, or `make bench`.

Every benchmark runs all contenders in one run, taking turns, on the same Arrow data and the same
disk. Nothing counts as written before it is synced: what a peer leaves to the operating system is
synced for it, inside the time that is measured. Warm-up rounds are not counted.
"""
