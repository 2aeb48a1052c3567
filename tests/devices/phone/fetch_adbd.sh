#!/bin/sh
# Unpack Debian trixie's adbd and all it needs into a folder: fetch_adbd.sh build/adbd
# Nothing is installed. The test that uses it runs it inside a private network namespace only (test_real_adbd.py).
set -e
target=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$target"
: > "$work/status"
mirror=${DEBIAN_MIRROR:-$(sed -n 's/^\(deb\|URIs:\) *\(\[[^]]*\]\)* *\(http[^ ]*\).*/\3/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $mirror trixie main" > "$work/sources.list"
options="-o Dir::Etc::sourcelist=$work/sources.list -o Dir::Etc::sourceparts=- -o Dir::State=$work/state
 -o Dir::State::status=$work/status -o Dir::Cache=$work/cache -o APT::Install-Recommends=false"
apt-get $options update
apt-get $options install -y --download-only adbd
for package in "$work"/cache/archives/*.deb; do dpkg-deb -x "$package" "$target"; done
