"""Energy expressions are recognised by what they say, not by how they are written."""

import pytest

from mdsim.forcefield.expressions import ExpressionError, match, parse, same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("acoef(type1, type2)/r^12 - bcoef(type1,type2)/r^6;", "-bcoef(type1,type2)/r^6+acoef(type1,type2)*r^-12"),
        ("(a/r6)^2-b/r6; r6=r^6; a=f(i); b=g(i)", "(f(i)/r^6)^2-g(i)/r^6"),
        ("k/2*(x-x0)^2", "0.5*k*(x0-x)^2"),
        ("4*e*((s/r)^12-(s/r)^6)", "4*e*(s/r)^12-4*e*s^6/r^6"),
        ("-x^2", "-(x^2)"),
        ("2^-1*x", "0.5*x"),
        ("min(a, b)", "min(b, a)"),
        ("a-(b-c)", "a+c-b"),
        ("k*x; k=2*pi; pi=3.14159265", "6.2831853*x"),
    ],
)
def test_the_same_function(one, other):
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/r^12-b/r^6", "a/r^12+b/r^6"),
        ("k*(x-x0)^2", "k*(x-x0)^4"),
        ("-x^2", "(-x)^2"),
        ("a-b-c", "a-(b-c)"),
        ("min(a, b)", "max(a, b)"),
        ("step(a-b)", "step(b-a)"),
        ("1.001*x", "x"),
        ("a/b/c", "a/(b/c)"),
    ],
)
def test_another_function(one, other):
    assert not same(one, other)


@pytest.mark.parametrize("text", ["", "k*", "(a+b", "a b", "f(a", "k*x; k", "2 ** 3", "a @ b"])
def test_no_expression(text):
    with pytest.raises(ExpressionError):
        parse(text)


def test_strength_and_parameters_are_told_apart():
    found = match("lambda*0.5*K*(r-d)^2", {"(r-r0)^2": ("r0",)}, ("K", "d", "lambda"))
    assert found is not None
    assert found.coefficient == 0.5
    assert found.strength == ("K", "lambda")
    assert found.parameters == {"r0": "d"}


def test_a_parameter_inside_the_shape_is_no_strength():
    assert match("k^2*(r-r0)^2", {"(r-r0)^2": ("r0",)}, ("k", "r0")) is None
    assert match("k*(r-r0)^3", {"(r-r0)^2": ("r0",)}, ("k", "r0")) is None


def test_order_of_asymmetric_parameters_is_found():
    found = match("-P/r^6+Q/r^12", {"A/r^12-C/r^6": ("A", "C")}, ("P", "Q"))
    assert found is not None
    assert found.parameters == {"A": "Q", "C": "P"}


def test_numbers_that_were_asked_for_stay_names():
    expression = parse("c/x; c=2*d; d=3", keep=("d",))
    assert expression.constants == {"d": 3.0}
    assert expression.main.text == parse("2*d/x").main.text
