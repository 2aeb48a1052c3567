@file:Suppress("UNUSED_PARAMETER", "unused")
package android.content
import java.io.File
class ApplicationInfo { @JvmField var nativeLibraryDir = "" }
abstract class Context {
    abstract val noBackupFilesDir: File
    abstract val filesDir: File
    abstract val assets: android.content.res.AssetManager
    open val applicationInfo = ApplicationInfo()
    open val cacheDir: File get() = filesDir
    open val contentResolver = ContentResolver()
    abstract fun getSystemService(name: String): Any?
    abstract fun getExternalFilesDir(type: String?): File?
    open val applicationContext: Context get() = this
    open val mainExecutor: java.util.concurrent.Executor get() = TODO()
    companion object { const val ACTIVITY_SERVICE = "activity"; const val POWER_SERVICE = "power" }
}
