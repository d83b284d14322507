"""What is not text in a message (pictures, sound, documents) to a placeholder with a digest.

The digest is of what the log holds of it, so that another file in the same place is another
message; a log that holds nothing but the type gives none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from mwviz.formats.fields import Json, Object
from mwviz.rollout import Part

FAMILIES = {
    "image": "image",
    "image_url": "image",
    "image_file": "image",
    "input_image": "image",
    "computer_screenshot": "image",
    "audio": "audio",
    "audio_url": "audio",
    "input_audio": "audio",
    "video": "video",
    "video_url": "video",
    "input_video": "video",
    "document": "document",
    "file": "file",
    "input_file": "file",
    "container_upload": "file",
    "blob": "file",
    "uri": "file",
}
"""Types of content blocks that are not text, and what they hold."""
TYPES = ("media_type", "mime_type", "mimeType", "mime")
PLACES = (
    *("data", "base64", "blob", "file_data", "url", "uri", "fileUri", "file_url"),
    *("image_url", "video_url", "audio_url", "image", "image_urls", "audio", "input_audio"),
    *("video", "document", "file", "image_file", "file_id", "path", "source", "content"),
    *("filename", "title", "context"),
)
"""Where a block has its content, or says where it is, or what it is called."""
DATA_URI = "data:"
DIGEST_BYTES = 4


def is_media(kind: str) -> bool:
    """Whether a content block of this type is no text."""
    return kind in FAMILIES


def media_part(block: Object) -> Part:
    """The placeholder of a content block of any provider."""
    family = FAMILIES.get(str(block.get("type")), "file")
    modality = block.get("modality")
    family = modality if isinstance(modality, str) else family
    media = next(_types(block), None)
    if media is None:
        media = next((found for text in _contents(block) if (found := _declared(text))), None)
    if media is None:
        formats = (inner.get("format") for inner in _objects(block))
        form = next((found for found in formats if isinstance(found, str)), None)
        media = f"{family}/{form}" if form and family in ("audio", "video") else family
    return placeholder(media, block)


def placeholder(media: str, *contents: Json) -> Part:
    """A part without text: what it is, and a digest of its contents if there are any."""
    texts = [_bare(text) for content in contents for text in _contents(content)]
    name = f"{media} {digest(texts)}" if texts else media
    return Part("image" if media.startswith("image") else "file", "", name=name)


def digest(texts: Iterable[str]) -> str:
    """Eight hexadecimal digits that differ for other texts."""
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for at, text in enumerate(texts):
        found.update((b"\0" if at else b"") + text.encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def as_text(parts: Iterable[Part]) -> str:
    """The parts of a tool's result as one text, what is not text as its placeholder."""
    return "\n".join(part.text or _shown(part) for part in parts)


def _shown(part: Part) -> str:
    return "" if part.kind == "text" else f"[{part.name or part.kind}]"


def _contents(value: Json) -> Iterator[str]:
    """The texts of a block's known places, in their order."""
    if isinstance(value, str):
        yield from [value] if value else []
    elif isinstance(value, list):
        for item in value:
            yield from _contents(item)
    elif isinstance(value, dict):
        for key in PLACES:
            yield from _contents(value.get(key))


def _objects(block: Object) -> Iterator[Object]:
    """The block and the objects in its places."""
    yield block
    for key in PLACES:
        inner = block.get(key)
        if isinstance(inner, dict):
            yield from _objects(inner)


def _types(block: Object) -> Iterator[str]:
    for inner in _objects(block):
        for key in TYPES:
            found = inner.get(key)
            if isinstance(found, str) and found:
                yield found


def _declared(text: str) -> str | None:
    """The type in front of data that stand in an address of their own."""
    if not text.startswith(DATA_URI):
        return None
    return text[len(DATA_URI) : 200].partition(",")[0].partition(";")[0] or None


def _bare(text: str) -> str:
    """The content alone: of an address without what may be signed anew each time."""
    if text.startswith(DATA_URI):
        return text.partition(",")[2]
    return text.partition("?")[0] if text.startswith("http") else text
