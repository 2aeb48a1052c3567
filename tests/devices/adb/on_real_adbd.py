"""The program that test_real_adbd.py runs in the private namespace: ``says`` prepares answers, ``bench`` measures."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.devices.phone.phone import BATTERY, PROPERTIES, THERMAL

STAND_IN = Path(__file__).parents[1] / "phone" / "stand_in_runner.py"
SERIAL = "127.0.0.1:5555"


def says() -> None:
    folder = Path(os.environ["PHONE_SAYS"])
    (folder / "properties").write_text("".join(f"{name}={value}\n" for name, value in PROPERTIES.items()))
    (folder / "dumpsys-battery").write_text(BATTERY)
    (folder / "dumpsys-thermalservice").write_text(THERMAL.format(status=0, skin=30.0))
    (folder / "dumpsys-power").write_text("mWakefulness=Awake\n")


def measure() -> None:
    from edgec.devices.adb import transport
    from edgec.devices.runner.files import RunnerPackage
    from edgec.runtime_py.bench.bench import bench

    vars(transport)["arm64_runner"] = lambda say: RunnerPackage({"runner": STAND_IN}, ("./runner",))
    result = bench(os.environ["BUNDLE"], f"adb:{SERIAL}", prompt_tokens=20, new_tokens=4, warmups=0)
    print(f"records: {len(result.records)}")
    print(f"left behind: {sorted(path.name for path in Path('/data/local/tmp').iterdir())}")


if __name__ == "__main__":
    {"says": says, "bench": measure}[sys.argv[1]]()
