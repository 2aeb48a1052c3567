"""Android phones over adb: facts, heat, file transfer, and running the native runner in a folder of the phone."""
