"""A drawing made safe to stand inside a page: only known elements and attributes are kept."""

from xml.etree import ElementTree as ET

NAMESPACE = "http://www.w3.org/2000/svg"
ELEMENTS = frozenset({"svg", "g", "path", "rect", "text", "tspan", "line", "circle", "clipPath", "defs", "title"})
ATTRIBUTES = frozenset(
    {
        "d", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "width", "height", "viewBox", "transform", "fill",
        "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-miterlimit", "fill-opacity", "opacity",
        "text-anchor", "font-family", "font-size", "font-weight", "font-style", "clip-path", "id", "role", "class",
        "pointer-events", "dx", "dy", "preserveAspectRatio",
    }
)  # fmt: skip


def cleaned(svg: str, name: str) -> str:
    """The drawing with allowed parts only, named `name` for those who cannot see it, and as wide as its place."""
    root = _copy(ET.fromstring(svg))
    if root is None or root.tag != "svg":
        return ""
    root.set("xmlns", NAMESPACE)
    root.set("role", "img")
    root.set("aria-label", _printable(name))
    root.attrib.pop("width", None)
    root.attrib.pop("height", None)
    return ET.tostring(root, encoding="unicode")


def _copy(element: ET.Element) -> ET.Element | None:
    tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
    if tag not in ELEMENTS:
        return None
    copy = ET.Element(tag, {key: value for key, value in element.attrib.items() if _allowed(key, value)})
    copy.text, copy.tail = element.text, element.tail
    for child in element:
        kept = _copy(child)
        if kept is not None:
            copy.append(kept)
    return copy


def _allowed(key: str, value: str) -> bool:
    """References may point into the drawing only."""
    outside = "url(" in value and not value.startswith("url(#")
    return key in ATTRIBUTES and not outside and "javascript:" not in value.lower()


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
