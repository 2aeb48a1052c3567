package android.os
class Bundle
object Build {
    const val MANUFACTURER = ""; const val MODEL = ""; const val HARDWARE = ""
    object VERSION { const val RELEASE = "" }
}
