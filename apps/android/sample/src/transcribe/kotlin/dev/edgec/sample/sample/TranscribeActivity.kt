package dev.edgec.sample.sample

import dev.edgec.sample.EdgecTranscriber
import android.os.Build
import android.os.Bundle
import android.os.PowerManager
import androidx.activity.ComponentActivity
import androidx.activity.compose.setContent
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.MainScope
import kotlinx.coroutines.cancel

/** A sample: what is said becomes text. Copy what you need of it into your own app. */
class TranscribeActivity : ComponentActivity() {
    private val scope: CoroutineScope = MainScope()
    private val writing = TranscribeModel(scope, Microphone()) { EdgecTranscriber.load(applicationContext, it) }
    private var heat: AutoCloseable? = null

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContent { TranscribeScreen(writing) }
        writing.load()
        heat = listenToHeat()
    }

    override fun onStop() {
        writing.enteredBackground()
        super.onStop()
    }

    override fun onTrimMemory(level: Int) {
        super.onTrimMemory(level)
        writing.trimMemory(level)
    }

    override fun onDestroy() {
        heat?.close()
        writing.unload()
        scope.cancel()
        super.onDestroy()
    }

    /** Android says how hot it is since version 10. */
    private fun listenToHeat(): AutoCloseable? {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) return null
        val power = getSystemService(POWER_SERVICE) as PowerManager
        val listener = PowerManager.OnThermalStatusChangedListener { writing.thermalStatusIs(it) }
        power.addThermalStatusListener(mainExecutor, listener)
        return AutoCloseable { power.removeThermalStatusListener(listener) }
    }
}
