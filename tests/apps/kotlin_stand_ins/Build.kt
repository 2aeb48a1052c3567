package android.os
class Bundle
object Build {
    const val MANUFACTURER = ""; const val MODEL = ""; const val HARDWARE = ""
    object VERSION { const val RELEASE = ""; @JvmField var SDK_INT = 35 }
    object VERSION_CODES { const val Q = 29 }
}
