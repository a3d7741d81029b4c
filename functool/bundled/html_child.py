"""Turn HTML into Markdown in a process of its own: standard input to standard output.

Nothing imports this file. It is run with `python -I`. Its argument is the directory of the
converter, which becomes the last entry of `sys.path`. Every HTML converter takes minutes for some
pages. A converter that is not written in Python blocks all of Python meanwhile, but a process can
be killed.
"""

import json
import sys

MEMORY_BYTES = 2_000_000_000


def main() -> None:
    """Read one JSON line with the options, then the HTML; write one JSON object."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except ImportError:  # Some systems lack it. The time limit remains.
        pass
    sys.path.append(sys.argv[1])
    from html_to_markdown import ConversionOptions, convert

    options = json.loads(sys.stdin.buffer.readline())
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    found = convert(html, ConversionOptions(inline_data_media="alt_text_only"))
    text = found.content or ""
    if text.startswith("---\n"):  # The page's metadata. Only its title is kept.
        text = text.partition("\n---\n")[2].lstrip("\n")
    title = found.metadata.document.title if found.metadata else None
    if title and not text.startswith(f"# {title}\n"):
        text = f"# {title}\n\n{text}"
    cut = len(text) > options["limit"] or any(
        "depth_limit" in str(warning.kind) for warning in found.warnings
    )
    answer = {"text": text[: options["limit"]], "cut": cut}
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
