"""What a call costs when there is nothing to compute: x + 1 on ten floats, nanoseconds a call.

    python bench/overhead.py              # eager and braze
    python bench/overhead.py --compare    # torch.compile too
    python bench/overhead.py --json

The sides take turns, 10,000 calls each; medians. Exit status 1 if a call of the traced program costs more than
eager's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import timeit

import torch

import measure

CALLS = 10_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["eager", "braze", "torch.compile"], help="sides to measure")
    parser.add_argument("--compare", action="store_true", help="put torch.compile beside")
    parser.add_argument("--rounds", type=int, default=30, help="turns of each side (30)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    sides = options.only or ["eager", "braze", *(["torch.compile"] if options.compare else [])]

    def plus_one(x):
        return x + 1

    x = torch.arange(10, dtype=torch.float32)
    calls = {}
    for side in sides:
        if side == "braze":
            import braze

            calls[side] = braze.trace(plus_one, (x,))
        else:
            calls[side] = plus_one if side == "eager" else torch.compile(plus_one)

    samples: dict[str, list[float]] = {side: [] for side in sides}
    timers = {side: timeit.Timer("f(x)", globals={"f": call, "x": x}) for side, call in calls.items()}
    with torch.no_grad():
        for timer in timers.values():
            timer.timeit(CALLS)
        for _ in range(options.rounds):
            for side, timer in timers.items():
                samples[side].append(timer.timeit(CALLS) / CALLS * 1e3)

    nanoseconds = {side: statistics.median(values) * 1e6 for side, values in samples.items()}
    compared = "braze" in sides and "eager" in sides
    slower = compared and measure.speed(samples, "braze", "eager") < 1.0
    if options.json:
        print(json.dumps({"ns_per_call": nanoseconds, "failed": bool(slower)}))
    else:
        for side, value in nanoseconds.items():
            print(f"{side:14} {value:8.0f} ns a call")
        if compared:
            print(f"braze is {measure.speed(samples, 'braze', 'eager'):.2f} times as fast as eager")
    if slower:
        print("over the limit: a call of the traced x + 1 costs more than eager's", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
