"""Rational approximations of the smooth parts of Ewald sums in x = (alpha r)^2, 0 <= x <= MAX_X: no erfc, no exp, no table.

Each is N(x)/D(x) with D > 0 for all x >= 0, so that lanes beyond the cutoff cannot divide by zero. The coefficients were fitted by
iteratively reweighted linear least squares (Lawson's algorithm, which tends to the minimax solution) on 401 Chebyshev points
against scipy.special.erf and the series of the exponential function. The stated errors are the largest on these points; tests
check them on others.
"""

#: (alpha * cutoff)^2 up to which the fits hold: an Ewald error tolerance of 5e-8 in OpenMM's sense
MAX_X = 16.0

# f(x) = (erf(z)/z - 2/sqrt(pi) exp(-x))/x with z = sqrt(x); -d/dr (erf(alpha r)/r) = alpha^3 r f(x).
# The fraction z^3 f(x) of the bare Coulomb force that the mesh supplies has an absolute error below 2e-7.
FORCE_NUMERATOR = (
    0.752256236757782,
    0.0074168776323172425,
    0.017000337500143597,
    0.0008038462932917292,
    5.979246638150294e-05,
)
FORCE_DENOMINATOR = (
    1.0,
    0.6099105064116355,
    0.17409764464966063,
    0.03063620856330288,
    0.003449561747293492,
    0.00030457660642471977,
    4.144248691636797e-06,
)

# p(x) = erf(z)/z; erf(alpha r)/r = alpha p(x). The fraction z p(x) of the bare potential has an absolute error below 3e-8.
POTENTIAL_NUMERATOR = (
    1.128378976413954,
    0.1962490319206439,
    0.053467479942699785,
    0.004003648114983088,
    0.0002880414672297433,
    1.9748285011663963e-06,
)
POTENTIAL_DENOMINATOR = (
    1.0,
    0.5072523348400899,
    0.11647644470091663,
    0.015444424419924678,
    0.0012163605647254902,
    3.748085088695139e-05,
)

# LJPME (Essmann et al., J. Chem. Phys. 103, 8577 (1995), eq. 5.2 and its derivative):
# d(x) = (1 - exp(-x)(1 + x + x^2/2 + x^3/6))/x^4 in the force. x^4 d(x), the fraction of the bare dispersion force that the mesh
# supplies, has an absolute error below 3e-7.
DISPERSION_FORCE_NUMERATOR = (
    0.041645958383103136,
    -0.006233204635046299,
    0.0006707640530484768,
    -3.0151906751856248e-05,
    8.099489374174512e-07,
    -9.13198289101329e-09,
)
DISPERSION_FORCE_DENOMINATOR = (
    1.0,
    0.6480360063122869,
    0.20581192065006232,
    0.038021307121015306,
    0.0064653696639254766,
    0.0003445482136954898,
    7.150215171044344e-05,
)

# (1 - exp(-x)(1 + x + x^2/2))/x^3 in the energy; x^3 times it has an absolute error below 2e-7.
DISPERSION_NUMERATOR = (
    0.16665498640070112,
    -0.017326997966567996,
    0.0024827038014711,
    -5.221202056061037e-05,
    2.850362538586256e-06,
    -3.269667935415048e-08,
)
DISPERSION_DENOMINATOR = (
    1.0,
    0.6456132440330408,
    0.20009946477055213,
    0.03813664952871869,
    0.005579533455307287,
    0.0004136496307030898,
    5.251049993846953e-05,
)


def evaluate(coefficients, x):
    """Polynomial with the lowest power first (Horner)."""
    value = 0.0
    for c in reversed(coefficients):
        value = value * x + c
    return value
