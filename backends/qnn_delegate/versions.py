"""A separate process that prints the version that ExecuTorch was made for, and the SDK's.

    python -m edgec.backends.qnn_delegate.versions        ->        {"made_for": "2.37.0.250724", "build": "v2.37.0..."}

A library that ExecuTorch cannot load ends the process that asks for its version (an assertion in its C++), and one that
is loaded before torch makes torch's own import fail.
"""

from __future__ import annotations

import json
import sys


def main() -> int:
    """Ask about the SDK of ``QNN_SDK_ROOT``; the answer is the last line."""
    try:
        from executorch.backends.qualcomm.scripts.download_qnn_sdk import QNN_VERSION
        from executorch.backends.qualcomm.utils.check_qnn_version import get_sdk_build_id
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return 0
    print(json.dumps({"made_for": QNN_VERSION, "build": get_sdk_build_id()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
