"""A person whose results would be gone with the container is told so."""

from pathlib import Path

import pytest

from rollgym.driver.artifacts.in_memory import in_memory_remark

MOUNTS = """\
21 1 0:19 / / rw - overlay overlay rw
22 21 8:1 /a /results rw,nosuid master:1 - ext4 /dev/vda rw
23 21 0:20 / /tmp rw - tmpfs tmpfs rw
24 23 8:1 /b /tmp/kept\\040here rw - ext4 /dev/vda rw
25 21 8:1 / /twice rw - ext4 /dev/vda rw
26 21 0:21 / /twice rw shared:1 master:2 - ramfs none rw
"""


@pytest.mark.parametrize(
    ("results", "kind"),
    [
        ("/results/a/rollouts.jsonl", None),
        ("/tmp/a/b/rollouts.jsonl", "tmpfs"),
        ("/tmp/kept here/rollouts.jsonl", None),
        ("/tmpfolder/rollouts.jsonl", None),
        ("/twice/rollouts.jsonl", "ramfs"),
    ],
)
def test_results_in_memory_are_remarked_on(tmp_path: Path, results: str, kind: str | None) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    remark = in_memory_remark(Path(results), mounts)
    if kind is None:
        assert remark is None
    else:
        assert remark is not None
        assert remark.startswith(f"{Path(results).parent} is in memory ({kind}): ")


def test_nothing_is_said_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert in_memory_remark(Path("/tmp/rollouts.jsonl"), tmp_path / "mountinfo") is None
