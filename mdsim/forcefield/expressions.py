"""Recognising the algebraic expressions of OpenMM's Custom* forces.

An expression is parsed (OpenMM's Lepton grammar: ``main; name = definition; ...``), its definitions are put in, and the
result is brought to a normal form in which the order of terms and factors, white space, ``x/2`` for ``0.5*x`` and the like
make no difference. Two expressions are the same function if their normal forms have the same text. Numbers are compared to
six digits, since files round pi and Coulomb's constant differently.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import permutations

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)|([A-Za-z_]\w*)|(\S))")


class ExpressionError(ValueError):
    """The text is not an expression of the grammar."""


@dataclass(frozen=True)
class Call:
    """Function call; also a power whose exponent is no number."""

    name: str
    arguments: tuple[Product, ...]


@dataclass(frozen=True)
class Sum:
    """Two terms or more, sorted by their text, the first with coefficient 1, without a factor common to all."""

    terms: tuple[Product, ...]


Base = str | Call | Sum


@dataclass(frozen=True)
class Product:
    """``coefficient * base**power * base**power ...``, sorted by the text of the base; a number has no factors."""

    coefficient: float
    factors: tuple[tuple[Base, float], ...] = ()

    @property
    def text(self) -> str:
        """Normal form: equal texts mean equal functions."""
        return f"{self.coefficient:.6g}" + "".join(f"*{_factor_text(f)}" for f in self.factors)


def _base_text(base: Base) -> str:
    if isinstance(base, str):
        return base
    if isinstance(base, Call):
        return f"{base.name}({','.join(a.text for a in base.arguments)})"
    return "(" + "+".join(t.text for t in base.terms) + ")"


def _factor_text(factor: tuple[Base, float]) -> str:
    return f"{_base_text(factor[0])}^{factor[1]:g}"


def _make_product(coefficient: float, factors: Iterable[tuple[Base, float]]) -> Product:
    """Merge equal bases, drop zeroth powers, sort."""
    powers: dict[str, tuple[Base, float]] = {}
    for base, power in factors:
        text = _base_text(base)
        powers[text] = (base, power + (powers[text][1] if text in powers else 0.0))
    if coefficient == 0.0:
        return Product(0.0)
    return Product(coefficient, tuple(powers[t] for t in sorted(powers) if powers[t][1] != 0.0))


def multiply(a: Product, b: Product) -> Product:
    return _make_product(a.coefficient * b.coefficient, a.factors + b.factors)


def power(a: Product, exponent: Product) -> Product:
    """Whole powers of a product are powers of its factors; anything else stays as it is."""
    n = exponent.coefficient
    if exponent.factors or n != round(n) or (a.coefficient == 0.0 and n < 0):
        return Product(1.0, ((Call("pow", (a, exponent)), 1.0),))
    return _make_product(a.coefficient**n, ((base, p * n) for base, p in a.factors))


def add(terms: Iterable[Product]) -> Product:
    """Flatten, merge like terms, take out common factors, sort."""
    like: dict[str, Product] = {}
    for term in _flatten(terms):
        key = Product(1.0, term.factors).text
        coefficient = term.coefficient + (like[key].coefficient if key in like else 0.0)
        like[key] = Product(coefficient, term.factors)
    left = [t for t in like.values() if t.coefficient != 0.0]
    if not left:
        return Product(0.0)
    if len(left) == 1:
        return left[0]
    shared = set.intersection(*({_factor_text(f) for f in t.factors} for t in left))
    common = tuple(f for f in left[0].factors if _factor_text(f) in shared)
    stripped = [Product(t.coefficient, tuple(f for f in t.factors if _factor_text(f) not in shared)) for t in left]
    stripped.sort(key=lambda t: Product(1.0, t.factors).text)
    first = stripped[0].coefficient
    total = Sum(tuple(Product(t.coefficient / first, t.factors) for t in stripped))
    return _make_product(first, (*common, (total, 1.0)))


def _flatten(terms: Iterable[Product]) -> Iterable[Product]:
    for term in terms:
        sums = [base for base, p in term.factors if isinstance(base, Sum) and p == 1.0]
        if len(sums) == 1:  # c f (a + b) = c f a + c f b; factors common to all terms come out again later
            rest = Product(term.coefficient, tuple(f for f in term.factors if f[0] is not sums[0]))
            yield from _flatten(multiply(rest, t) for t in sums[0].terms)
        elif term.coefficient != 0.0:
            yield term


class _Parser:
    """Recursive descent over one expression; ``names`` are replaced by their parsed definitions."""

    def __init__(self, text: str, names: dict[str, Product]) -> None:
        self._tokens = list(_TOKEN.finditer(text.rstrip()))
        self._next = 0
        self._names = names
        self._text = text

    def parse(self) -> Product:
        result = self._sum()
        if self._next < len(self._tokens):
            raise ExpressionError(f"cannot read '{self._text.strip()}' at '{self._peek()}'")
        return result

    def _peek(self) -> str:
        return self._tokens[self._next][0].strip() if self._next < len(self._tokens) else ""

    def _take(self, expected: str | None = None) -> re.Match[str]:
        if self._next >= len(self._tokens) or (expected is not None and self._peek() != expected):
            raise ExpressionError(f"cannot read '{self._text.strip()}': {expected or 'a value'} is missing")
        self._next += 1
        return self._tokens[self._next - 1]

    def _sum(self) -> Product:
        terms = [self._product()]
        while self._peek() in ("+", "-"):
            sign = 1.0 if self._take()[3] == "+" else -1.0
            terms.append(multiply(Product(sign), self._product()))
        return add(terms)

    def _product(self) -> Product:
        result = self._signed()
        while self._peek() in ("*", "/"):
            divide = self._take()[3] == "/"
            factor = self._signed()
            result = multiply(result, power(factor, Product(-1.0)) if divide else factor)
        return result

    def _signed(self) -> Product:
        if self._peek() in ("-", "+"):
            sign = -1.0 if self._take()[3] == "-" else 1.0
            return multiply(Product(sign), self._signed())
        base = self._value()
        if self._peek() == "^":
            self._take()
            return power(base, self._signed())
        return base

    def _value(self) -> Product:
        token = self._take()
        if token[1]:
            return Product(float(token[1]))
        if token[2]:
            return self._call(token[2]) if self._peek() == "(" else self._name(token[2])
        if token[3] == "(":
            inner = self._sum()
            self._take(")")
            return inner
        raise ExpressionError(f"cannot read '{self._text.strip()}' at '{token[0].strip()}'")

    def _name(self, name: str) -> Product:
        return self._names.get(name, Product(1.0, ((name, 1.0),)))

    def _call(self, name: str) -> Product:
        self._take("(")
        arguments = [self._sum()]
        while self._peek() == ",":
            self._take()
            arguments.append(self._sum())
        self._take(")")
        if name in ("min", "max"):
            arguments.sort(key=lambda a: a.text)
        return Product(1.0, ((Call(name, tuple(arguments)), 1.0),))


@dataclass(frozen=True)
class Expression:
    """A parsed expression; ``constants`` are the definitions that are plain numbers and were asked to be kept as names."""

    main: Product
    constants: dict[str, float]


def parse(text: str, keep: Collection[str] = ()) -> Expression:
    """Parse ``main; a = ...; b = ...``. Later definitions may be used by earlier ones, as in OpenMM.

    Definitions named in ``keep`` that are plain numbers stay names in the expression, and their values are returned.
    """
    main, *definitions = [part for part in text.split(";") if part.strip()] or [""]
    names: dict[str, Product] = {}
    constants: dict[str, float] = {}
    for definition in reversed(definitions):
        name, equals, value = definition.partition("=")
        if not equals:
            raise ExpressionError(f"'{definition.strip()}' is not a definition")
        parsed = _Parser(value, names).parse()
        if name.strip() in keep and not parsed.factors:
            constants[name.strip()] = parsed.coefficient
        else:
            names[name.strip()] = parsed
    return Expression(_Parser(main, names).parse(), constants)


def same(text: str, template: str, keep: Collection[str] = ()) -> bool:
    """Whether both are the same function of the same names."""
    return parse(text, keep).main.text == parse(template).main.text


@dataclass(frozen=True)
class Match:
    """``energy = coefficient * (product of strength) * shape(parameters)``."""

    shape: str  # the template that fitted
    coefficient: float
    strength: tuple[str, ...]  # parameters that multiply the whole
    parameters: dict[str, str]  # name in the template -> name in the force


def match(text: str, shapes: Mapping[str, tuple[str, ...]], declared: Collection[str]) -> Match | None:
    """Find which of ``shapes`` (template -> its parameters) an energy expression is, up to a factor; None: not one of them.

    ``declared`` are the force's own parameter names; parameters that multiply the whole are its strength, the others
    must fill the template's parameters in some order.
    """
    energy = parse(text).main
    is_strength = [isinstance(base, str) and base in declared and p == 1.0 for base, p in energy.factors]
    strength = tuple(str(f[0]) for f, s in zip(energy.factors, is_strength, strict=True) if s)
    shape = Product(1.0, tuple(f for f, s in zip(energy.factors, is_strength, strict=True) if not s))
    free = sorted(n for n in declared if n not in strength and re.search(rf"\b{n}\b", text))
    for template, parameters in shapes.items():
        if len(parameters) != len(free):
            continue
        for order in permutations(free):
            names = dict(zip(parameters, order, strict=True))
            renamed = reduce(lambda t, n: re.sub(rf"\b{n}\b", f"@{names[n]}", t), names, template).replace("@", "")
            pattern = parse(renamed).main
            if Product(1.0, pattern.factors).text == shape.text:
                return Match(template, energy.coefficient / pattern.coefficient, strength, names)
    return None
