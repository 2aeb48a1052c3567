package android.system

/** A stand-in: variables are not set. */
object Os {
    @JvmStatic fun setenv(name: String, value: String, overwrite: Boolean) {}
}
