"""Functional forms: potentials and their derivatives as plain functions of scalars, written once for every target.

Each returns ``(u, du_dx)``: an energy in kJ/mol and its derivative by the coordinate that the force is taken along. They use
``+ - * /`` alone, so that they may be compiled for any device (``inline(forms.harmonic)`` on the CPU) and give the same bits there.
"""


def harmonic(x, x0, k):
    """Harmonic well, u = k/2 (x - x0)^2; bonds in the distance (nm), angles in the angle (rad).

    Returns u, du/dx.
    """
    d = x - x0
    return 0.5 * k * d * d, k * d


def flat_bottom(r, lower, upper, k):
    """Flat-bottomed harmonic well: 0 between ``lower`` and ``upper``, k/2 d^2 at a distance d outside.

    Returns u, du/dr.
    """
    d = r - upper if r > upper else (r - lower if r < lower else 0.0)
    return 0.5 * k * d * d, k * d


def periodic_torsion(cos_phi, sin_phi, n, cos_phase, sin_phase, k):
    """Periodic torsion, u = k (1 + cos(n phi - phase)), from cosine and sine of phi and of the phase.

    cos(n phi) + i sin(n phi) = (cos phi + i sin phi)^n (de Moivre): no trigonometric function, stable at every angle.
    Returns u, du/dphi.
    """
    c, s = 1.0, 0.0
    for _ in range(n):
        c, s = c * cos_phi - s * sin_phi, s * cos_phi + c * sin_phi
    return k * (1.0 + (c * cos_phase + s * sin_phase)), n * (k * (c * sin_phase - s * cos_phase))


def ryckaert_bellemans(cos_phi, sin_phi, c0, c1, c2, c3, c4, c5):
    """Ryckaert-Bellemans torsion, u = sum_n c_n cos(psi)^n with psi = phi - pi.

    Returns u, du/dphi.
    """
    x = -cos_phi
    u = c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5))))
    du_dx = c1 + x * (2.0 * c2 + x * (3.0 * c3 + x * (4.0 * c4 + x * (5.0 * c5))))
    return u, du_dx * sin_phi


def harmonic_improper(d, k):
    """Harmonic in the deviation of an angle (rad), without the factor 1/2 (CHARMM), u = k d^2.

    Returns u, du/dd.
    """
    return k * d * d, 2.0 * k * d


def bicubic_patch(c, a, b):
    """Bicubic patch, u = sum_ij c[4 i + j] a^i b^j, at fractions ``a``, ``b`` in [0, 1] of a grid cell; ``c``: 16 coefficients.

    Returns u, du/da, du/db.
    """
    u, du_da, du_db = 0.0, 0.0, 0.0
    for i in range(3, -1, -1):
        row = c[4 * i] + b * (c[4 * i + 1] + b * (c[4 * i + 2] + b * c[4 * i + 3]))
        row_slope = c[4 * i + 1] + b * (2.0 * c[4 * i + 2] + b * (3.0 * c[4 * i + 3]))
        du_da = du_da * a + u
        u = u * a + row
        du_db = du_db * a + row_slope
    return u, du_da, du_db
