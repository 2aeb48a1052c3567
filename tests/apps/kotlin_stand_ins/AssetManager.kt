package android.content.res
abstract class AssetManager { abstract fun open(name: String): java.io.InputStream }
