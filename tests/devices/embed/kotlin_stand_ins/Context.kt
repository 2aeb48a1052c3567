@file:Suppress("UNUSED_PARAMETER", "unused")
package android.content
import java.io.File
class ApplicationInfo { @JvmField var nativeLibraryDir = "" }
abstract class Context {
    abstract val noBackupFilesDir: File
    abstract val filesDir: File
    abstract val assets: android.content.res.AssetManager
    open val applicationInfo = ApplicationInfo()
    abstract fun getSystemService(name: String): Any?
    abstract fun getExternalFilesDir(type: String?): File?
    companion object { const val ACTIVITY_SERVICE = "activity" }
}
