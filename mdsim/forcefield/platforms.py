"""Which OpenMM is installed, for ``mdsim doctor`` and ``mdsim bench``."""

from __future__ import annotations


def openmm_platforms() -> list[str]:
    """Names of the platforms that the installed OpenMM offers here."""
    import openmm

    return [openmm.Platform.getPlatform(i).getName() for i in range(openmm.Platform.getNumPlatforms())]


def openmm_version() -> str:
    """Version of the installed OpenMM."""
    import openmm

    version: str = openmm.version.version
    return version
