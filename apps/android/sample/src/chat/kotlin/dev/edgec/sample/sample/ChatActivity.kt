package dev.edgec.sample.sample

import dev.edgec.sample.EdgecModel
import android.os.Build
import android.os.Bundle
import android.os.PowerManager
import androidx.activity.ComponentActivity
import androidx.activity.compose.setContent
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.MainScope
import kotlinx.coroutines.cancel

/** A sample: one conversation with the model. Copy what you need of it into your own app. */
class ChatActivity : ComponentActivity() {
    private val scope: CoroutineScope = MainScope()
    private val chat = ChatModel(scope) { EdgecModel.load(applicationContext, it) }
    private var heat: AutoCloseable? = null

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContent { ChatScreen(chat) }
        chat.load()
        heat = listenToHeat()
    }

    override fun onStop() {
        chat.enteredBackground()
        super.onStop()
    }

    override fun onTrimMemory(level: Int) {
        super.onTrimMemory(level)
        chat.trimMemory(level)
    }

    override fun onDestroy() {
        heat?.close()
        chat.unload()
        scope.cancel()
        super.onDestroy()
    }

    /** Android says how hot it is since version 10. */
    private fun listenToHeat(): AutoCloseable? {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) return null
        val power = getSystemService(POWER_SERVICE) as PowerManager
        val listener = PowerManager.OnThermalStatusChangedListener { chat.thermalStatusIs(it) }
        power.addThermalStatusListener(mainExecutor, listener)
        return AutoCloseable { power.removeThermalStatusListener(listener) }
    }
}
