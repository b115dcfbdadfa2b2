"""Every item of the plan for cold compilation that has a script here, as one table.

    python -m bench.cold_items                  # braze's figures and their limits
    python -m bench.cold_items --compare        # torch.compile's beside them: minutes
    python -m bench.cold_items --only 1.1 8.1   # some items

Exit status 1 if a limit is passed, which is then named.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
import common  # noqa: E402  (beside the scripts, which also run alone)


def main() -> int:
    parser = common.parser_for(__doc__)
    parser.add_argument("--only", nargs="+", metavar="ITEM", help="numbers of items")
    options = parser.parse_args()
    scripts = {p.stem.removeprefix("item_").replace("_", "."): p for p in sorted(FOLDER.glob("item_*.py"))}
    unknown = set(options.only or ()) - set(scripts)
    if unknown:
        parser.error(f"no item {', '.join(sorted(unknown))}; there are: {', '.join(scripts)}")
    results, failed = {}, []
    for number in options.only or scripts:
        item = importlib.import_module(scripts[number].stem).ITEM
        results[number] = common.run_item(item, scripts[number], options.runs, options.compare)
        failed += results[number]["failed"]
    return common.measure.conclude(results, failed, common.show, options.json, width=150)


if __name__ == "__main__":
    sys.exit(main())
