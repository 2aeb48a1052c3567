# Run by test_real_adbd.py inside its own network and mount namespace: adbd is reachable from nowhere else.
set -e
ip link set lo up 2>/dev/null || ifconfig lo up
[ "$(ls /sys/class/net 2>/dev/null | wc -l)" -le 2 ] || true
mkdir -p "$WORK/phone" "$WORK/home" "$WORK/says"
mkdir -p /data 2>/dev/null || true
mount -t tmpfs tmpfs /data
mkdir -p /data/local/tmp
export HOME="$WORK/home" PHONE_SAYS="$WORK/says" ANDROID_ADB_SERVER_PORT=5139 PATH="$PHONE_COMMANDS:$PATH"
loader=$(find "$ADBD_ROOT" -name 'ld-linux-x86-64.so.2' | head -n 1)
libraries="$ADBD_ROOT/usr/lib/x86_64-linux-gnu:$ADBD_ROOT/usr/lib/x86_64-linux-gnu/android:$ADBD_ROOT/lib/x86_64-linux-gnu"
daemon="$ADBD_ROOT/usr/lib/android-sdk/platform-tools/adbd"
"$PYTHON" -m tests.devices.adb.on_real_adbd says
"$loader" --library-path "$libraries" "$daemon" > "$WORK/adbd.log" 2>&1 &
adbd=$!
trap 'kill $adbd || true; "$ADBUTILS_ADB_PATH" kill-server || true' EXIT
sleep 2
"$PYTHON" -m tests.devices.adb.on_real_adbd bench
