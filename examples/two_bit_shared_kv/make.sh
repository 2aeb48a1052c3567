#!/bin/sh
# Usage: make.sh TEXT...   Writes build/two-bit-shared/; STEPS (500) sets the length of both trainings.
# A run that was stopped goes on where it was.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
model=$here/../tiny-stories
out=${OUT:-build/two-bit-shared}
steps="--steps ${STEPS:-500} --learning-rate 3e-4 --scale-rate 1e-3 --evaluate-every 25"
texts=""
for file in "$@"; do texts="$texts --text $file"; done
mkdir -p "$out"

# shellcheck disable=SC2086  # one option for each file and number
[ -d "$out/teacher" ] || edgec adapt "$model" --recipe float --text-loss 1 $texts $steps \
    --out "$out/teacher"
# shellcheck disable=SC2086
[ -d "$out/model" ] || edgec adapt "$model" --recipe "$here/../tiny-stories-two-bit/two-bit-shared.toml" --teacher "$out/teacher" \
    --text-loss 0.5 $texts $steps --out "$out/model"
edgec export "$out/model" --out "$out/tiny-stories-two-bit.edgec" --force
edgec run "$out/tiny-stories-two-bit.edgec" --raw -p "Once upon a time" --temperature 0.7 --seed 1 --max-new-tokens 160
