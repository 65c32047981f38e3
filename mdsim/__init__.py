"""mdsim: molecular dynamics for screening drug candidates. The same bits on any number of ranks and threads."""

__version__ = "0.1.0"
