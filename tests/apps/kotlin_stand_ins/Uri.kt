package android.net

class Uri(val path: String) {
    override fun toString() = "content:/$path"
}
