"""Run a benchmark by name: `python -m benchmarks core`."""

import importlib
import pkgutil
import sys

import benchmarks


def main() -> int:
    names = [
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not module.name.startswith("_")
    ]
    chosen = sys.argv[1:] or ["core"]
    for name in chosen:
        if name not in names:
            print(f"no benchmark named {name!r}; there are: {', '.join(names)}", file=sys.stderr)
            return 2
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


sys.exit(main())
