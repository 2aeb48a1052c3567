package android

class Manifest {
    object permission { const val RECORD_AUDIO = "android.permission.RECORD_AUDIO" }
}
