package dev.edgec.sample.sample

import dev.edgec.sample.SpeechLimits
import android.annotation.SuppressLint
import android.media.AudioFormat
import android.media.AudioRecord
import android.media.MediaRecorder
import java.io.IOException
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.withContext

/** The device's microphone, at the rate that the model hears; it records for ten minutes at most. */
class Microphone : SoundSource {
    @Volatile
    private var ended = false

    override fun end() {
        ended = true
    }

    override suspend fun samples(): FloatArray = withContext(Dispatchers.IO) {
        ended = false
        val recorder = recorder()
        try {
            recorder.startRecording()
            val parts = ArrayList<FloatArray>()
            while (!ended && parts.size < MOST_PARTS) {
                ensureActive()
                parts += part(recorder)
            }
            joined(parts)
        } finally {
            recorder.release()
        }
    }

    // The screen asks for the permission before it records.
    @SuppressLint("MissingPermission")
    private fun recorder(): AudioRecord {
        val format = AudioFormat.Builder().setSampleRate(SpeechLimits.SAMPLING_RATE)
            .setEncoding(AudioFormat.ENCODING_PCM_FLOAT).setChannelMask(AudioFormat.CHANNEL_IN_MONO).build()
        val made = AudioRecord.Builder().setAudioSource(MediaRecorder.AudioSource.VOICE_RECOGNITION).setAudioFormat(format)
            .setBufferSizeInBytes(BYTES_PER_SAMPLE * SpeechLimits.SAMPLING_RATE).build()
        if (made.state != AudioRecord.STATE_INITIALIZED) throw IOException("the microphone is not free")
        return made
    }

    /** What is heard in a tenth of a second. */
    private fun part(recorder: AudioRecord): FloatArray {
        val samples = FloatArray(SpeechLimits.SAMPLING_RATE / PARTS_A_SECOND)
        val count = recorder.read(samples, 0, samples.size, AudioRecord.READ_BLOCKING)
        if (count < 0) throw IOException("the microphone gives error $count")
        return samples.copyOf(count)
    }

    private fun joined(parts: List<FloatArray>): FloatArray {
        val all = FloatArray(parts.sumOf { it.size })
        var next = 0
        for (part in parts) {
            part.copyInto(all, next)
            next += part.size
        }
        return all
    }

    private companion object {
        const val PARTS_A_SECOND = 10
        const val MOST_PARTS = 600 * PARTS_A_SECOND
        const val BYTES_PER_SAMPLE = 4
    }
}
