"""Schemas that nobody would write by hand, for the laws."""

from hypothesis import strategies as st

STRINGS = st.sampled_from(["a", "b", "cd"])
NAMES = st.sampled_from(["a", "b", "limit", "x_y"])
PATTERNS = st.sampled_from(["^[a-z]+$", "abc", "^a|b$", "(?:a|b)", "a$", "^\\d{2}", "a\\b", "^[^x]*$", "x{1000}"])
FORMATS = st.sampled_from(["date", "uri", "uuid", "email", "binary", "int64", "ipv6"])
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.just(0.5), STRINGS)
SMALL = st.integers(0, 4)
REFS = st.sampled_from(["#/$defs/A", "#/$defs/B", "#", "#/$defs/A/properties/a", "#/definitions/C"])

ABOUT = {"description": st.sampled_from(["What it is.", "Another."]), "title": STRINGS, "default": VALUES}
TEXT = {"minLength": SMALL, "maxLength": st.sampled_from([5, 5000]), "pattern": PATTERNS, "format": FORMATS}
NUMBER = {
    "minimum": SMALL,
    "maximum": SMALL,
    "exclusiveMinimum": SMALL,
    "exclusiveMaximum": st.sampled_from([7, 7.5]),
    "multipleOf": st.just(2),
}
FIXED = st.sampled_from(
    [
        {},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["boolean"]},
        {"type": "string", "enum": ["p", "q"]},
        {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]},
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
    ]
)


@st.composite
def some(draw, keywords):
    """Any of the keywords, each with a value."""
    chosen = draw(st.lists(st.sampled_from(sorted(keywords)), unique=True, max_size=3))
    return {keyword: draw(keywords[keyword]) for keyword in chosen}


@st.composite
def leaves(draw):
    """A schema that holds no other."""
    kind = draw(st.sampled_from(["string", "integer", "number", "nullable", "both", "enum", "const", "ref", "fixed"]))
    if kind in ("string", "nullable"):
        return {"type": "string" if kind == "string" else ["string", "null"], **draw(some(TEXT))}
    if kind in ("integer", "number"):
        return {"type": kind, **draw(some(NUMBER))}
    if kind == "both":
        return {"type": ["integer", "string"], **draw(some(NUMBER)), **draw(some(TEXT))}
    if kind == "enum":
        return {"enum": draw(st.lists(VALUES, min_size=1, max_size=4, unique_by=repr))}
    if kind == "const":
        return {"const": draw(VALUES)}
    return {"$ref": draw(REFS)} if kind == "ref" else dict(draw(FIXED))


@st.composite
def nodes(draw, depth):
    """Any schema, at most `depth` levels above its leaves."""
    about = draw(some(ABOUT))
    kind = draw(st.sampled_from(["leaf", "leaf", "array", "tuple", "object", "anyOf", "oneOf", "allOf", "not"]))
    if depth == 0 or kind == "leaf":
        return {**draw(leaves()), **about}
    below = nodes(depth - 1)
    if kind == "array":
        rest = {"items": below, "minItems": SMALL, "maxItems": SMALL, "uniqueItems": st.booleans()}
        return {"type": "array", **draw(some(rest)), **about}
    if kind == "tuple":
        rest = {"items": st.just(False), "minItems": SMALL}
        return {"type": "array", "prefixItems": draw(st.lists(below, min_size=1, max_size=3)), **draw(some(rest)), **about}
    if kind == "object":
        return {**draw(objects(depth - 1)), **about}
    if kind == "not":
        return {**draw(below), "not": {"type": "null"}, **about}
    return {kind: draw(st.lists(below, min_size=1, max_size=3)), **about}


@st.composite
def objects(draw, depth):
    """The schema of an object."""
    fields = {name: draw(nodes(depth)) for name in draw(st.lists(NAMES, unique=True, max_size=3))}
    required = [name for name in fields if draw(st.booleans())]
    rest = {
        "additionalProperties": st.one_of(st.booleans(), nodes(0)),
        "minProperties": SMALL,
        "patternProperties": nodes(0).map(lambda node: {"^x": node}),
        "propertyNames": st.just({"pattern": "^[a-z]+$"}),
    }
    return {"type": "object", "properties": fields, **({"required": required} if required else {}), **draw(some(rest))}


@st.composite
def schemas(draw):
    """The schema of arguments, with definitions that may hold each other and themselves."""
    inner = draw(objects(1))
    inner["properties"] = {"a": draw(nodes(1)), **inner["properties"]}
    alternatives = {"anyOf": [{"required": ["a"]}, {"properties": {"z": {"type": "string"}}}]}
    return {
        **draw(objects(2)),
        **draw(st.sampled_from([{}, {}, {}, alternatives])),
        **draw(some(ABOUT)),
        "$defs": {"A": inner, "B": draw(nodes(1))},
        "definitions": {"C": {"type": "integer"}},
    }


ROOTS = schemas()
