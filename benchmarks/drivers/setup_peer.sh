#!/usr/bin/env bash
# setup_peer.sh VENV [PYTHON]: a virtual environment with the published nemo-gym 0.7.0, to be measured beside ours.
# Its wheel asks for a newer patch release of Python 3.13 than many machines have and runs on earlier ones all the same:
# so what it requires is installed first, and then the wheel itself without that check.
set -euo pipefail

venv=${1:?usage: setup_peer.sh VENV [PYTHON]}
python=${2:-python3.13}
version=0.7.0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$venv"
"$venv/bin/pip" --quiet download --no-deps --ignore-requires-python --dest "$work" "nemo-gym==$version"
wheel=$(echo "$work"/nemo_gym-*.whl)
"$venv/bin/python" - "$wheel" >"$work/requirements.txt" <<'PYTHON'
import sys
import zipfile
from email.parser import Parser

with zipfile.ZipFile(sys.argv[1]) as wheel:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
for requirement in metadata.get_all("Requires-Dist", []):
    if "extra ==" not in requirement:
        print(requirement)
PYTHON
"$venv/bin/pip" --quiet install --requirement "$work/requirements.txt"
"$venv/bin/pip" --quiet install --no-deps --ignore-requires-python "$wheel"
"$venv/bin/python" -c "import nemo_gym.rollout_collection" && echo "nemo-gym $version is ready in $venv"
