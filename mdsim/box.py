"""Periodic boxes and the map between nanometres and box fractions (DESIGN.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdsim.errors import InputError
from mdsim.kernels.fixed_point import FRACTION_SCALE

#: nm; in the box around it positions are still told apart by 1e-6 nm
LARGEST_EXTENT = 1e3
#: further away the coordinates are a mistake, and beyond 2**31 the images would overflow
MOST_BOXES_AWAY = 1e6


@dataclass(frozen=True)
class Box:
    """Three box vectors as rows, in OpenMM's reduced form (lower triangular), nm.

    A system without periodic boundaries lives in a box too, one so large (``for_isolated``) that the wrap never
    brings two of its atoms together: ``periodic`` is then False, and nothing else changes.
    """

    vectors: np.ndarray  # float64[3, 3], rows a, b, c; vectors[0, 1:] == 0 and vectors[1, 2] == 0
    periodic: bool = True

    def __post_init__(self) -> None:
        v = np.array(self.vectors, dtype=np.float64)
        if v.shape != (3, 3) or not np.isfinite(v).all():
            raise InputError(f"the box needs three finite vectors of three numbers, got {v.tolist()}")
        if v[0, 1] or v[0, 2] or v[1, 2] or (np.diag(v) <= 0).any():
            raise InputError(
                "box vectors must be in reduced form, a = (ax, 0, 0), b = (bx, by, 0), c = (cx, cy, cz) with "
                f"positive ax, by, cz; got {v.tolist()}"
            )
        v.flags.writeable = False
        object.__setattr__(self, "vectors", v)

    @classmethod
    def for_isolated(cls, positions: np.ndarray) -> Box:
        """Cube for a non-periodic system: a power of two, at least four times as wide as the atoms' extent (nm)."""
        extent = float(np.ptp(positions, axis=0).max()) if len(positions) else 0.0
        if not extent <= LARGEST_EXTENT:
            raise InputError(
                f"the atoms are spread over {extent:.3g} nm; positions of a system without a periodic box are exact enough "
                f"up to {LARGEST_EXTENT:g} nm. Is an atom far off, or are the coordinates in another unit?"
            )
        edge = 16.0
        while edge < 4.0 * extent:
            edge *= 2.0
        return cls(np.diag([edge] * 3), periodic=False)

    @property
    def lattice(self) -> np.ndarray:
        """float64[3, 3]: box vectors / 2**32, so that a difference of int32 fractions times it is a vector in nm."""
        lattice: np.ndarray = self.vectors / FRACTION_SCALE
        return lattice

    @property
    def inverse(self) -> np.ndarray:
        """float64[3, 3], lower triangular: nm @ inverse = box fractions. Written out, so that no BLAS decides bits."""
        (ax, _, _), (bx, by, _), (cx, cy, cz) = self.vectors
        return np.array(
            [
                [1.0 / ax, 0.0, 0.0],
                [-bx / (ax * by), 1.0 / by, 0.0],
                [(bx * cy - by * cx) / (ax * by * cz), -cy / (by * cz), 1.0 / cz],
            ]
        )

    @property
    def volume(self) -> float:
        """Volume, nm^3."""
        return float(self.vectors[0, 0] * self.vectors[1, 1] * self.vectors[2, 2])

    @property
    def widths(self) -> np.ndarray:
        """float64[3]: perpendicular widths, nm (distance between opposite faces)."""
        widths: np.ndarray = 1.0 / np.sqrt((self.inverse**2).sum(axis=0))
        return widths

    @property
    def orthorhombic(self) -> bool:
        v = self.vectors
        return not (v[1, 0] or v[2, 0] or v[2, 1])

    def fractions(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions in nm, float64[n, 3], to (int32[n, 3] fixed-point fractions, int32[n, 3] images)."""
        x, inv = np.asarray(positions, dtype=np.float64), self.inverse
        f = np.empty_like(x)
        f[:, 2] = x[:, 2] * inv[2, 2]
        f[:, 1] = x[:, 1] * inv[1, 1] + x[:, 2] * inv[2, 1]
        f[:, 0] = (x[:, 0] * inv[0, 0] + x[:, 1] * inv[1, 0]) + x[:, 2] * inv[2, 0]
        far = np.flatnonzero((np.abs(f) > MOST_BOXES_AWAY).any(axis=1))
        if len(far):
            raise InputError(
                f"atom {far[0]} is at {x[far[0]].tolist()} nm, more than {MOST_BOXES_AWAY:.0e} boxes away: check the coordinates"
            )
        unwrapped = np.rint(f * FRACTION_SCALE).astype(np.int64)
        wrapped = unwrapped.astype(np.int32)  # keeps the low 32 bits: the wrap
        return wrapped, ((unwrapped - wrapped) >> 32).astype(np.int32)

    def cartesian(self, fractions: np.ndarray, images: np.ndarray | None = None) -> np.ndarray:
        """int32[n, 3] fractions (and images) to float64[n, 3] nm: unwrapped with images, within ±1/2 box without."""
        f = np.asarray(fractions).astype(np.float64) / FRACTION_SCALE
        if images is not None:
            f = f + images
        v = self.vectors
        x: np.ndarray = np.empty_like(f)
        x[:, 0] = (f[:, 0] * v[0, 0] + f[:, 1] * v[1, 0]) + f[:, 2] * v[2, 0]
        x[:, 1] = f[:, 1] * v[1, 1] + f[:, 2] * v[2, 1]
        x[:, 2] = f[:, 2] * v[2, 2]
        return x
