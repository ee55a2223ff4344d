"""The picture is a well-formed SVG that shows every variant, whatever was measured."""

from xml.etree import ElementTree as ET

import pytest

from rollgym.driver.simulate.measured import Measured
from rollgym.driver.simulate.picture import picture
from unit.driver.simulate.seen_runs import figures, measured

SVG = "{http://www.w3.org/2000/svg}"


def test_each_run_has_a_panel_with_its_lag_and_its_pauses() -> None:
    runs = [measured(figures(name)) for name in ("default", "tuned", "off")]
    root = ET.fromstring(picture("64 tasks & <more>", runs))
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert root.tag == f"{SVG}svg"
    assert "64 tasks & <more>" in texts
    assert [text.split()[0] for text in texts if "lag at most" in text] == ["default", "tuned", "off"]
    assert len(list(root.iter(f"{SVG}polyline"))) == 3
    assert len(list(root.iter(f"{SVG}circle"))) == 6


@pytest.mark.parametrize(
    "runs",
    [[], [Measured(figures(), [], [])], [Measured(figures(), [(0.0, 0.0)], [(0.0, 1, 0.0)])]],
    ids=["no run", "nothing seen", "zeros"],
)
def test_a_picture_of_little_is_a_picture(runs: list[Measured]) -> None:
    drawn = picture("", runs)
    assert ET.fromstring(drawn).tag == f"{SVG}svg"
    assert "nan" not in drawn


def test_nothing_is_drawn_outside_the_picture() -> None:
    run = Measured(figures(), [(0.0, 1e6), (50.0, 0.0)], [(60.0, 2, 1e5)])
    root = ET.fromstring(picture("", [run]))
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    for circle in root.iter(f"{SVG}circle"):
        assert 0 <= float(circle.attrib["cx"]) <= width
        assert 0 <= float(circle.attrib["cy"]) <= height
