@file:Suppress("UNUSED_PARAMETER")

package android.media

class AudioFormat {
    class Builder {
        fun setSampleRate(sampleRate: Int) = this

        fun setEncoding(encoding: Int) = this

        fun setChannelMask(channelMask: Int) = this

        fun build() = AudioFormat()
    }

    companion object {
        const val ENCODING_PCM_FLOAT = 4
        const val CHANNEL_IN_MONO = 16
    }
}

class MediaRecorder {
    object AudioSource { const val VOICE_RECOGNITION = 6 }
}

/** A stand-in: silence. */
class AudioRecord {
    val state get() = STATE_INITIALIZED

    fun startRecording() {}

    fun read(samples: FloatArray, offset: Int, size: Int, mode: Int) = size

    fun release() {}

    class Builder {
        fun setAudioSource(source: Int) = this

        fun setAudioFormat(format: AudioFormat) = this

        fun setBufferSizeInBytes(bytes: Int) = this

        fun build() = AudioRecord()
    }

    companion object {
        const val STATE_INITIALIZED = 1
        const val READ_BLOCKING = 0
    }
}
