package android.system

import java.nio.file.Files
import java.nio.file.LinkOption
import java.nio.file.NoSuchFileException
import java.nio.file.Path
import java.nio.file.attribute.FileTime

class ErrnoException(message: String) : Exception(message)

class StructStat(
    @JvmField val st_mode: Int,
    @JvmField val st_nlink: Long,
    @JvmField val st_size: Long,
    @JvmField val st_mtime: Long,
    @JvmField val st_ctime: Long,
    @JvmField val st_ino: Long,
)

object OsConstants {
    private fun isKind(mode: Int, kind: Int) = mode and 0xF000 == kind

    @JvmStatic fun S_ISDIR(mode: Int) = isKind(mode, 0x4000)

    @JvmStatic fun S_ISREG(mode: Int) = isKind(mode, 0x8000)

    @JvmStatic fun S_ISLNK(mode: Int) = isKind(mode, 0xA000)
}

/** A stand-in: files are looked at as they are, variables are not set. */
object Os {
    @JvmStatic fun setenv(name: String, value: String, overwrite: Boolean) {}

    @JvmStatic fun lstat(path: String): StructStat = try {
        val seen = Files.readAttributes(Path.of(path), "unix:*", LinkOption.NOFOLLOW_LINKS)
        fun seconds(name: String) = (seen.getValue(name) as FileTime).toMillis() / 1000
        StructStat(
            seen.getValue("mode") as Int,
            (seen.getValue("nlink") as Int).toLong(),
            seen.getValue("size") as Long,
            seconds("lastModifiedTime"),
            seconds("ctime"),
            seen.getValue("ino") as Long,
        )
    } catch (error: NoSuchFileException) {
        throw ErrnoException("lstat failed: ENOENT")
    }
}
