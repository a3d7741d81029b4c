"""Which names are names of character encodings."""

import codecs

import pytest

from functool.bundled.text_encodings import text_encoding


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("utf-8", "utf_8"),
        ("UTF8", "utf_8"),
        ("utf---8", "utf_8"),
        ("utf-8-sig", "utf_8_sig"),
        ("latin-1", "latin_1"),
        ("ISO-8859-15", "iso8859_15"),
        ("windows-1252", "cp1252"),
        ("sjis", "shift_jis"),
        ("koi8-r", "koi8_r"),
        ("macintosh", "mac_roman"),
    ],
)
def test_a_character_encoding_has_one_name(name, expected):
    """Every spelling of an encoding leads to the one name that Python has for it."""
    assert text_encoding(name) == expected
    assert codecs.lookup(expected).name == codecs.lookup(name).name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x-sjis", "shift_jis"),
        ("x-gbk", "gbk"),
        ("x-euc-jp", "euc_jp"),
        ("x-mac-cyrillic", "mac_cyrillic"),
        ("windows-31j", "cp932"),
        ("windows-874", "cp874"),
        ("windows-949", "cp949"),
        ("ISO-8859-8-I", "iso8859_8"),
    ],
)
def test_names_of_the_web_that_python_lacks(name, expected):
    """The names by which web pages call some encodings are known, too."""
    assert text_encoding(name) == expected
    assert codecs.lookup(expected)


@pytest.mark.parametrize(
    "name",
    [
        "punycode",
        "idna",
        "zlib",
        "base64",
        "rot13",
        "unicode_escape",
        "raw-unicode-escape",
        "undefined",
        "charmap",
        "utf-7",
        "U7",
        "mbcs",
        "no",
        "a\0b",
        "",
        "é",
        "utf-8" + "-" * 99,
    ],
)
def test_other_codecs_have_none(name):
    """Codecs that are no character encodings, invented names and endless ones are not known."""
    assert text_encoding(name) is None
