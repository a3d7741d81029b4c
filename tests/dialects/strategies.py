"""Schemas that nobody would write by hand, for the laws."""

from functools import cache

from hypothesis import strategies as st

# Strategies are made once, not once a draw: to make and check one costs more than to draw from it.
STRINGS = st.sampled_from(["a", "b", "cd"])
NAMES = st.sampled_from(["a", "b", "limit", "x_y"])
PATTERNS = st.sampled_from(
    ["^[a-z]+$", "abc", "^a|b$", "(?:a|b)", "a$", "^\\d{2}", "a\\b", "^[^x]*$", "x{1000}"]
)
FORMATS = st.sampled_from(["date", "uri", "uuid", "email", "binary", "int64", "ipv6"])
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.just(0.5), STRINGS)
SMALL = st.integers(0, 4)
FLAGS = st.booleans()
REFS = st.sampled_from(["#/$defs/A", "#/$defs/B", "#", "#/$defs/A/properties/a", "#/definitions/C"])

ABOUT = {
    "description": st.sampled_from(["What it is.", "Another."]),
    "title": STRINGS,
    "default": VALUES,
}
TEXT = {
    "minLength": SMALL,
    "maxLength": st.sampled_from([5, 5000]),
    "pattern": PATTERNS,
    "format": FORMATS,
}
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


def some(keywords):
    """Any of the keywords, each with a value."""
    chosen = st.lists(st.sampled_from(sorted(keywords)), unique=True, max_size=3)

    @st.composite
    def drawn(draw):
        return {keyword: draw(keywords[keyword]) for keyword in draw(chosen)}

    return drawn()


SOME_ABOUT, SOME_TEXT, SOME_NUMBER = some(ABOUT), some(TEXT), some(NUMBER)
LEAVES = st.sampled_from(
    ["string", "integer", "number", "nullable", "both", "enum", "const", "ref", "fixed"]
)
NODES = st.sampled_from(
    ["leaf", "leaf", "array", "tuple", "object", "anyOf", "oneOf", "allOf", "not"]
)
ENUMS = st.lists(VALUES, min_size=1, max_size=4, unique_by=repr)
SOME_NAMES = st.lists(NAMES, unique=True, max_size=3)
ALTERNATIVES = {"anyOf": [{"required": ["a"]}, {"properties": {"z": {"type": "string"}}}]}
SOME_ALTERNATIVES = st.sampled_from([{}, {}, {}, ALTERNATIVES])


@cache
@st.composite
def leaves(draw):
    """A schema that holds no other."""
    kind = draw(LEAVES)
    if kind in ("string", "nullable"):
        return {"type": "string" if kind == "string" else ["string", "null"], **draw(SOME_TEXT)}
    if kind in ("integer", "number"):
        return {"type": kind, **draw(SOME_NUMBER)}
    if kind == "both":
        return {"type": ["integer", "string"], **draw(SOME_NUMBER), **draw(SOME_TEXT)}
    if kind == "enum":
        return {"enum": draw(ENUMS)}
    if kind == "const":
        return {"const": draw(VALUES)}
    return {"$ref": draw(REFS)} if kind == "ref" else dict(draw(FIXED))


@cache
def several(depth):
    """A few schemas."""
    return st.lists(nodes(depth), min_size=1, max_size=3)


@cache
def arrays(depth):
    """What an array of alike items may say."""
    return some(
        {"items": nodes(depth), "minItems": SMALL, "maxItems": SMALL, "uniqueItems": st.booleans()}
    )


SOME_TUPLE = some({"items": st.just(False), "minItems": SMALL})


@cache
@st.composite
def nodes(draw, depth):
    """Any schema, at most `depth` levels above its leaves."""
    about = draw(SOME_ABOUT)
    kind = draw(NODES)
    if depth == 0 or kind == "leaf":
        return {**draw(leaves()), **about}
    if kind == "array":
        return {"type": "array", **draw(arrays(depth - 1)), **about}
    if kind == "tuple":
        return {
            "type": "array",
            "prefixItems": draw(several(depth - 1)),
            **draw(SOME_TUPLE),
            **about,
        }
    if kind == "object":
        return {**draw(objects(depth - 1)), **about}
    if kind == "not":
        return {**draw(nodes(depth - 1)), "not": {"type": "null"}, **about}
    return {kind: draw(several(depth - 1)), **about}


SOME_REST = some(
    {
        "additionalProperties": st.one_of(st.booleans(), nodes(0)),
        "minProperties": SMALL,
        "patternProperties": nodes(0).map(lambda node: {"^x": node}),
        "propertyNames": st.just({"pattern": "^[a-z]+$"}),
    }
)


@cache
@st.composite
def objects(draw, depth):
    """The schema of an object."""
    fields = {name: draw(nodes(depth)) for name in draw(SOME_NAMES)}
    required = [name for name in fields if draw(FLAGS)]
    return {
        "type": "object",
        "properties": fields,
        **({"required": required} if required else {}),
        **draw(SOME_REST),
    }


@st.composite
def schemas(draw):
    """The schema of arguments, with definitions that may hold each other and themselves."""
    inner = draw(objects(1))
    inner["properties"] = {"a": draw(nodes(1)), **inner["properties"]}
    return {
        **draw(objects(2)),
        **draw(SOME_ALTERNATIVES),
        **draw(SOME_ABOUT),
        "$defs": {"A": inner, "B": draw(nodes(1))},
        "definitions": {"C": {"type": "integer"}},
    }


ROOTS = schemas()
