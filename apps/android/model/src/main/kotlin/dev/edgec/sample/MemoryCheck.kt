package dev.edgec.sample

import android.app.ActivityManager
import android.content.Context
import java.io.File
import java.io.RandomAccessFile
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.channels.FileChannel

/** The memory of the device: whether as much is free as the model needs, and what a state lies in. */
internal object MemoryCheck {
    /** Bytes that are free before the system begins to end processes. */
    fun availableBytes(context: Context): Long {
        val manager = context.getSystemService(Context.ACTIVITY_SERVICE) as ActivityManager
        val info = ActivityManager.MemoryInfo()
        manager.getMemoryInfo(info)
        return info.availMem - info.threshold
    }

    fun run(context: Context, neededBytes: Long) {
        val available = availableBytes(context)
        if (available < neededBytes) throw NotEnoughMemory(neededBytes, available)
    }

    /**
     * Zeros outside the Java heap, whose limit counts direct buffers, too, and is often 256 MB: private pages of a file
     * that has no name any more, which appear as they are written.
     */
    fun zeros(bytes: Int): ByteBuffer {
        val file = File.createTempFile("edgec", ".state")
        try {
            return RandomAccessFile(file, "rw").use {
                it.setLength(bytes.toLong())
                it.channel.map(FileChannel.MapMode.PRIVATE, 0, bytes.toLong()).order(ByteOrder.nativeOrder())
            }
        } finally {
            file.delete()
        }
    }
}
