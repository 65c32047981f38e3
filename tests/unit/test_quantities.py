"""Quantities with units: the value in mdsim's units, and a refusal that says what to write."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdsim.config.quantities import Measure, parse_quantity

#: text of the unit, unit of mdsim, exact factor
UNITS = [
    ("fs", "ps", 1e-3),
    ("ps", "ps", 1.0),
    ("ns", "ps", 1e3),
    ("nm", "nm", 1.0),
    ("Å", "nm", 0.1),
    ("angstrom", "nm", 0.1),
    ("/ps", "1/ps", 1.0),
    ("1/ps", "1/ps", 1.0),
    ("ps^-1", "1/ps", 1.0),
    ("1/fs", "1/ps", 1e3),
    ("amu", "amu", 1.0),
    ("Da", "amu", 1.0),
    ("K", "K", 1.0),
    ("kJ/mol/nm^2", "kJ/mol/nm^2", 1.0),
    ("kcal/mol/Å^2", "kJ/mol/nm^2", 418.4),
    ("bar", "bar", 1.0),
    ("atm", "bar", 1.01325),
    ("mmol/L", "mol/L", 1e-3),
    ("h", "s", 3600.0),
]

numbers = st.floats(min_value=1e-12, max_value=1e12)


@given(number=numbers, unit=st.sampled_from(UNITS), gap=st.sampled_from(["", " ", "  "]))
def test_value_in_own_units(number, unit, gap):
    text, target, factor = unit
    assert parse_quantity(f"{number!r}{gap if not text.startswith('1/') else ' '}{text}", target, "") == pytest.approx(
        number * factor, rel=1e-12
    )


@given(number=numbers)
def test_number_in_own_unit_is_exact(number):
    assert parse_quantity(f"{number!r} nm", "nm", "") == number


def test_conversion_leaves_no_dust():
    assert parse_quantity("9 Å", "nm", "") == 0.9
    assert parse_quantity("2 fs", "ps", "") == 0.002


def test_degrees_celsius():
    assert parse_quantity("27 degC", "K", "") == pytest.approx(300.15)


@given(text=st.text(max_size=30))
def test_any_text_is_a_finite_number_or_an_explanation(text):
    try:
        value = parse_quantity(text, "ps", "2 fs")
    except ValueError as error:
        value, explanation = 0.0, str(error)
        assert "'2 fs'" in explanation
    assert math.isfinite(value)


@pytest.mark.parametrize(
    ("text", "unit", "remedy"),
    [
        ("2", "ps", "has no unit"),
        ("fast", "ps", "is not a number with a unit"),
        ("2 parsnips", "ps", "'parsnips' is not a unit"),
        ("2 nm", "ps", "does not measure the same as 'ps'"),
        ("9 A", "nm", "for A write Å or angstrom"),
        ("300 k", "K", "for k write K"),
        ("1e999 ps", "ps", "too large"),
        ("nan ps", "ps", "is not a number with a unit"),
        ("__import__('os')", "ps", "is not a number with a unit"),
        ("2 ps; import os", "ps", "is not a unit"),
    ],
)
def test_refusals_name_the_remedy(text, unit, remedy):
    with pytest.raises(ValueError, match=r"\S") as caught:
        parse_quantity(text, unit, "EXAMPLE")
    assert remedy in str(caught.value)
    assert "EXAMPLE" in str(caught.value)


@pytest.mark.parametrize("value", [2, 2.0, True, None, [1], {}])
def test_bare_numbers_and_other_types_are_refused(value):
    with pytest.raises(ValueError, match="for instance '2 fs'"):
        Measure("ps", "2 fs").validate(value)


def test_ranges():
    with pytest.raises(ValueError, match="greater than 0 ps"):
        Measure("ps", "2 fs").validate("0 fs")
    assert Measure("1/ps", "1 /ps", exclusive=False).validate("0 /ps") == 0.0
    with pytest.raises(ValueError, match="at least 0 K"):
        Measure("K", "300 K", exclusive=False).validate("-1 K")
