"""An XMP packet (RDF in XML) -> the same packet with a caption.

Three properties are replaced; every other byte of the packet stays as it was.
No library writes the packet, because those that do drop what they do not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from sightwords.errors import InputError
from sightwords.text.written import as_sentence

MAX_PACKET_BYTES = 16 * 2**20

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_DC = "http://purl.org/dc/elements/1.1/"
_IPTC = "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/"
_LANG = "http://www.w3.org/XML/1998/namespace lang"
_DEFAULT = "x-default"

DESCRIPTION = f"{_DC} description"
SUBJECT = f"{_DC} subject"
ALT_TEXT = f"{_IPTC} AltTextAccessibility"
_OURS = (DESCRIPTION, SUBJECT, ALT_TEXT)
_TAGS = {
    DESCRIPTION: ("dc:description", _DC, "Alt"),
    ALT_TEXT: ("Iptc4xmpCore:AltTextAccessibility", _IPTC, "Alt"),
    SUBJECT: ("dc:subject", _DC, "Bag"),
}
"""How each property is written: its tag, its namespace, and what holds its values."""
_CONTAINERS = frozenset(f"{_RDF} {name}" for name in ("Alt", "Bag", "Seq"))

EMPTY = (
    b'<?xpacket begin="\xef\xbb\xbf" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/">\n'
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n'
    b"</rdf:RDF>\n"
    b'</x:xmpmeta>\n<?xpacket end="w"?>\n'
)


Value = tuple[str | None, str]
"""Language, if there is one, and text."""


class EmbedError(InputError):
    """A caption cannot go into a photo without a risk to the rest; the message gives the reason."""


@dataclass
class _Property:
    """One of our properties as it stands: its bytes from `start` to `end`, and its values."""

    name: str
    start: int
    end: int = 0
    values: list[Value] = field(default_factory=list)


def with_caption(packet: bytes, caption: str, words: Sequence[str]) -> bytes:
    """The packet with the caption as description and alt text, and the words as keywords.

    Descriptions in other languages and the keywords that are there stay.

    >>> b"A dog." in with_caption(EMPTY, "a dog", ["dog"])
    True
    """
    found = _Reader(packet)
    old = {item.name: item.values for item in found.properties}
    listed = old.get(SUBJECT, [])
    known = {text for _, text in listed}
    new = {
        DESCRIPTION: _said(old.get(DESCRIPTION, []), caption),
        ALT_TEXT: _said(old.get(ALT_TEXT, []), as_sentence(caption)),
        SUBJECT: [*listed, *((None, word) for word in dict.fromkeys(words) if word not in known)],
    }
    edits = [_added(found, new)]
    edits += [(p.start, p.end, _property(found.prefix, p.name, new[p.name]))
              for p in found.properties if p.values != new[p.name]]  # fmt: skip
    for start, end, text in sorted(edits, reverse=True):
        packet = packet[:start] + text + packet[end:]
    return packet


def _said(before: Sequence[Value], caption: str) -> list[Value]:
    """The caption as the default; what is there in other languages stays."""
    others = [value for value in before if value[0] not in (None, _DEFAULT)]
    return [(_DEFAULT, caption), *others]


def _added(found: _Reader, new: dict[str, list[Value]]) -> tuple[int, int, bytes]:
    """The properties that are not there yet, and the bytes of the packet that they replace."""
    there = {item.name for item in found.properties}
    texts = [_property(found.prefix, name, values)
             for name, values in new.items() if name not in there and values]  # fmt: skip
    if not texts:
        return found.rdf_end, found.rdf_end, b""
    prefix = found.prefix
    head = f"<{prefix}Description {prefix}about={quoteattr(found.about)}>\n"
    text = head.encode() + b"\n".join(texts) + f"\n</{prefix}Description>\n".encode()
    if found.self_closing:  # <rdf:RDF ... />
        return found.rdf_end - 2, found.rdf_end, b">" + text + f"</{prefix}RDF>".encode()
    return found.rdf_end, found.rdf_end, text


def _property(prefix: str, name: str, values: list[Value]) -> bytes:
    """One property; it names its own namespace, so it can stand anywhere."""
    tag, namespace, container = _TAGS[name]
    own = tag.partition(":")[0]
    lines = [f'<{tag} xmlns:{own}="{namespace}"><{prefix}{container}>']
    for language, text in values:
        attribute = f" xml:lang={quoteattr(language)}" if language else ""
        lines.append(f"<{prefix}li{attribute}>{escape(text)}</{prefix}li>")
    lines.append(f"</{prefix}{container}></{tag}>")
    return "\n".join(lines).encode("utf-8", "backslashreplace")


class _Reader:
    """Where our properties and the end of the RDF are, in bytes of the packet."""

    def __init__(self, packet: bytes) -> None:
        if len(packet) > MAX_PACKET_BYTES:
            raise EmbedError(f"its XMP is larger than {MAX_PACKET_BYTES >> 20} MB")
        self._packet = packet
        self._path: list[str] = []
        self._open: _Property | None = None
        self._item: tuple[str | None, list[str]] | None = None
        self.properties: list[_Property] = []
        self.prefix = "rdf:"
        self.about: str = ""
        self.rdf_end = -1
        self.self_closing = False
        self._parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._finish
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parse()

    def _parse(self) -> None:
        body = self._packet.rstrip(b" \t\r\n\0")  # some writers end a packet with a zero
        try:
            self._parser.Parse(body, True)
        except expat.ExpatError as error:
            raise EmbedError(f"its XMP cannot be read ({error})") from error
        if self.rdf_end < 0:
            raise EmbedError("its XMP has no rdf:RDF element")
        names = [item.name for item in self.properties]
        if len(names) != len(set(names)):
            raise EmbedError("its XMP has a description, an alt text or keywords twice")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        depth, at = len(self._path), self._parser.CurrentByteIndex
        self._path.append(name)
        if self._open is not None:
            self._inside(name, attributes)
        elif name == f"{_RDF} RDF":
            if self.rdf_end >= 0 or f"{_RDF} RDF" in self._path[:-1]:
                raise EmbedError("its XMP has several rdf:RDF elements")
            if self._path[:-1] not in ([], ["adobe:ns:meta/ xmpmeta"], ["adobe:ns:meta/ xapmeta"]):
                raise EmbedError("its XMP has rdf:RDF at an unusual place")
            self.prefix = _prefix(self._packet[at + 1 : at + 200])
            if not self.prefix:
                raise EmbedError("its XMP names RDF without a prefix")
        elif depth and self._path[-2] == f"{_RDF} RDF":
            self._describe(name, attributes)
        elif depth > 1 and self._path[-3] == f"{_RDF} RDF" and name in _OURS:
            if attributes:
                raise EmbedError("its XMP has a description, alt text or keywords with qualifiers")
            self._open = _Property(name, at)
            self._item = (None, [])

    def _describe(self, name: str, attributes: dict[str, str]) -> None:
        if name != f"{_RDF} Description":
            raise EmbedError("its XMP holds something other than descriptions")
        if any(ours in attributes for ours in _OURS):
            raise EmbedError("its XMP has a description, alt text or keywords as attributes")
        self.about = self.about or attributes.get(f"{_RDF} about", "")

    def _inside(self, name: str, attributes: dict[str, str]) -> None:
        """Inside one of ours: a container with items is understood, and nothing else."""
        depth = len(self._path) - 1 - self._path.index(self._open.name) if self._open else 0
        plain = name in _CONTAINERS and depth == 1 and not attributes
        item = name == f"{_RDF} li" and depth == 2 and set(attributes) <= {_LANG}
        if not plain and not item:
            raise EmbedError("its XMP has a description, alt text or keywords with qualifiers")
        self._item = (attributes.get(_LANG), []) if item else None

    def _text(self, text: str) -> None:
        if self._item is not None:
            self._item[1].append(text)

    def _finish(self, name: str) -> None:
        self._path.pop()
        at = self._parser.CurrentByteIndex
        if self._open is not None:
            self._keep_item()
            if name == self._open.name:
                self._open.end = self._tag_end(at, self._open.start)
                self.properties.append(self._open)
                self._open = None
        elif name == f"{_RDF} RDF":
            self.rdf_end = at
            self.self_closing = not self._packet.startswith(f"</{self.prefix}RDF".encode(), at)

    def _keep_item(self) -> None:
        if self._open is not None and self._item is not None:
            language, parts = self._item
            if (text := "".join(parts)).strip():
                self._open.values.append((language, text))
            self._item = None

    def _tag_end(self, at: int, start: int) -> int:
        """Behind an element; expat gives where its end tag starts, or where `<a/>` ends."""
        name = self._packet[start + 1 : start + 200].split(b">", 1)[0].split()[0].rstrip(b"/")
        if self._packet.startswith(b"</" + name, at):
            return self._packet.index(b">", at) + 1
        return at

    def _refuse_doctype(self, *_: object) -> None:
        raise EmbedError("its XMP has a document type declaration")


def _prefix(tag: bytes) -> str:
    """The prefix of a tag's name, with its colon; empty where it has none."""
    name = tag.split(b">", 1)[0].split()[0].rstrip(b"/").decode("utf-8", "replace")
    return name[: name.rfind(":") + 1]
