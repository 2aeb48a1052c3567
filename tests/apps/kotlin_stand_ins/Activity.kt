package android.app
open class ActivityManager {
    class MemoryInfo { @JvmField var availMem = 0L; @JvmField var threshold = 0L; @JvmField var totalMem = 0L }
    open fun getMemoryInfo(info: MemoryInfo) {}
}
abstract class Activity : android.content.Context() {
    override val noBackupFilesDir get() = java.io.File("")
    override val filesDir get() = java.io.File("")
    override val assets: android.content.res.AssetManager get() = TODO()
    override fun getSystemService(name: String): Any? = null
    override fun getExternalFilesDir(type: String?): java.io.File? = null
    protected open fun onCreate(savedInstanceState: android.os.Bundle?) {}
    protected open fun onDestroy() {}
    protected open fun onStop() {}
    open fun onTrimMemory(level: Int) {}
    open fun setContentView(view: android.widget.TextView?) {}
}
