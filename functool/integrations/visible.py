"""What a person sees of a text that somebody else wrote: `functool.bundled.visible`."""

from functool.bundled.visible import is_hidden, visible

__all__ = ["is_hidden", "visible"]
