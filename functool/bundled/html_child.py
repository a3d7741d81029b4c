"""Turn HTML into Markdown in a process of its own: standard input to standard output.

Nothing imports this file. It is run with `python -I` and the directory of the converter, which
comes last on `sys.path`. Every HTML converter has pages that keep it busy for minutes, and one that
is written in another language holds up all of Python meanwhile: a process can be killed.
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
    except ImportError:  # Not on every system; the time limit remains.
        pass
    sys.path.append(sys.argv[1])
    from html_to_markdown import ConversionOptions, convert

    options = json.loads(sys.stdin.buffer.readline())
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    found = convert(html, ConversionOptions(inline_data_media="alt_text_only"))
    text = found.content or ""
    if text.startswith("---\n"):  # The page's metadata, of which the title is enough.
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
