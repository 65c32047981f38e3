"""docs/support.md says what the compiler does. MDSIM_WRITE_DOCS=1 pytest tests/unit/test_support_table.py writes it anew."""

import os
from pathlib import Path

from forcefield_samples import NAMES, villin

from mdsim.forcefield.compile import JOINT_TABLES, SIMPLE_TABLES
from mdsim.forcefield.support import CLASSES, support_document

DOCUMENT = Path(__file__).parents[2] / "docs" / "support.md"


def test_the_document_is_current():
    text = support_document({name: (villin(name).system, villin(name).compile()) for name in NAMES})
    if os.environ.get("MDSIM_WRITE_DOCS"):
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text


def test_every_class_that_is_compiled_is_listed():
    assert {kind.__name__ for kind in (*SIMPLE_TABLES, *JOINT_TABLES)} == set(CLASSES)
