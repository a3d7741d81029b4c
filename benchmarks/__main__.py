"""Run benchmarks by name: `python -m benchmarks core`, `python -m benchmarks peers --quick`."""

import importlib
import itertools
import pkgutil
import sys

import benchmarks


def main() -> int:
    names = [
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not module.name.startswith("_")
    ]
    words = sys.argv[1:]
    chosen = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    options = words[len(chosen) :]
    for name in chosen or ["core"]:
        if name not in names:
            print(f"no benchmark named {name!r}; there are: {', '.join(names)}", file=sys.stderr)
            return 2
        if options and name != "peers":
            print(f"the benchmark {name!r} takes no options", file=sys.stderr)
            return 2
        module = importlib.import_module(f"benchmarks.{name}")
        module.main(options) if name == "peers" else module.main()
    return 0


sys.exit(main())
