"""Schemas that nobody would write by hand, for the laws."""

from hypothesis import strategies as st

STRINGS = st.sampled_from(["a", "b", "cd"])
NAMES = st.sampled_from(["a", "b", "limit", "x_y"])
PATTERNS = st.sampled_from(["^[a-z]+$", "abc", "^a|b$", "(?:a|b)", "a$", "^\\d{2}", "a\\b", "^[^x]*$", "x{1000}"])
FORMATS = st.sampled_from(["date", "uri", "uuid", "email", "binary", "int64", "ipv6"])
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.just(0.5), STRINGS)
SMALL = st.integers(0, 4)


def some(**keywords):
    """A dict with any of `keywords`."""
    return st.fixed_dictionaries({}, optional=keywords)


def merged(*parts):
    return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})


ABOUT = some(description=st.sampled_from(["What it is.", "Another."]), title=STRINGS, default=VALUES)
TEXT = some(minLength=SMALL, maxLength=st.sampled_from([5, 5000]), pattern=PATTERNS, format=FORMATS)
NUMBER = some(minimum=SMALL, maximum=SMALL, exclusiveMinimum=SMALL, exclusiveMaximum=st.sampled_from([7, 7.5]), multipleOf=st.just(2))
REFS = st.sampled_from(["#/$defs/A", "#/$defs/B", "#", "#/$defs/A/properties/a", "#/definitions/C"])


def typed(kind, keywords):
    return merged(st.just({"type": kind}), keywords)


LEAVES = st.one_of(
    typed("string", TEXT),
    typed("integer", NUMBER),
    typed("number", NUMBER),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({}),
    typed(["string", "null"], TEXT),
    typed(["integer", "string"], merged(NUMBER, TEXT)),
    st.lists(VALUES, min_size=1, max_size=4, unique_by=repr).map(lambda values: {"enum": values}),
    VALUES.map(lambda value: {"const": value}),
    st.just({"type": "string", "enum": ["p", "q"]}),
    merged(REFS.map(lambda ref: {"$ref": ref}), some(description=STRINGS)),
)


def branches(child):
    members = st.lists(child, min_size=1, max_size=3)
    return st.one_of(
        typed("array", some(items=child, minItems=SMALL, maxItems=SMALL, uniqueItems=st.booleans())),
        typed("array", merged(members.map(lambda m: {"prefixItems": m}), some(items=st.just(False), minItems=SMALL))),
        objects(child),
        members.map(lambda m: {"anyOf": m}),
        members.map(lambda m: {"oneOf": m}),
        members.map(lambda m: {"allOf": m}),
        merged(child.filter(lambda c: "not" not in c), st.just({"not": {"type": "null"}})),
    )


def objects(child, **more):
    fields = st.dictionaries(NAMES, child, max_size=3)
    extra = st.one_of(st.booleans(), child)
    plain = fields.flatmap(
        lambda found: (
            st.lists(st.sampled_from(sorted(found)), unique=True).map(lambda names: {"properties": found, "required": names})
            if found
            else st.just({"properties": {}})
        )
    )
    rest = some(
        additionalProperties=extra,
        minProperties=SMALL,
        patternProperties=child.map(lambda c: {"^x": c}),
        propertyNames=st.just({"pattern": "^[a-z]+$"}),
    )
    return typed("object", merged(plain, rest, *more.values()))


NODES = st.deferred(lambda: st.recursive(merged(LEAVES, ABOUT), lambda child: merged(branches(child), ABOUT), max_leaves=6))


@st.composite
def schemas(draw):
    """The schema of an object, with definitions that may hold each other and themselves."""
    inner = draw(objects(NODES))
    inner["properties"] = {"a": draw(NODES), **inner["properties"]}
    alternatives = {"anyOf": [{"required": ["a"]}, {"properties": {"z": {"type": "string"}}}]}
    return {
        **draw(objects(NODES)),
        **draw(st.sampled_from([{}, {}, {}, alternatives])),
        **draw(ABOUT),
        "$defs": {"A": inner, "B": draw(NODES)},
        "definitions": {"C": {"type": "integer"}},
    }


ROOTS = schemas()
