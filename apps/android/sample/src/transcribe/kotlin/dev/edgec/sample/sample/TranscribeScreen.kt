package dev.edgec.sample.sample

import dev.edgec.sample.LoadStep
import android.Manifest
import android.content.Context
import android.net.Uri
import androidx.activity.compose.rememberLauncherForActivityResult
import androidx.activity.result.contract.ActivityResultContracts.OpenDocument
import androidx.activity.result.contract.ActivityResultContracts.RequestPermission
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.safeDrawingPadding
import androidx.compose.foundation.lazy.LazyColumn
import androidx.compose.foundation.lazy.items
import androidx.compose.material3.Button
import androidx.compose.material3.LinearProgressIndicator
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.collectAsState
import androidx.compose.runtime.getValue
import androidx.compose.ui.Modifier
import androidx.compose.ui.platform.LocalContext
import androidx.compose.ui.unit.dp
import java.io.File
import java.io.FileNotFoundException
import java.util.Locale
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.withContext

/** What was said, with the time of each part, and what the model is doing. */
@Composable
fun TranscribeScreen(writing: TranscribeModel) {
    val state by writing.state.collectAsState()
    MaterialTheme {
        Column(Modifier.fillMaxSize().safeDrawingPadding().padding(16.dp)) {
            Status(state.stage, writing)
            LazyColumn(Modifier.fillMaxWidth().weight(1f)) {
                items(state.segments) { Text("%.1f s: %s".format(Locale.ROOT, it.startS, it.text.trim())) }
            }
            state.note?.let { Text(it) }
            Row {
                RecordButton(state.stage, writing)
                FileButton(state.stage == Stage.Ready, writing)
            }
        }
    }
}

/** Asks for the microphone with the first recording. */
@Composable
private fun RecordButton(stage: Stage, writing: TranscribeModel) {
    val asked = rememberLauncherForActivityResult(RequestPermission()) { allowed -> if (allowed) writing.record() }
    when (stage) {
        Stage.Recording -> Button(onClick = { writing.finish() }) { Text("Write it down") }
        Stage.Writing -> Button(onClick = { writing.stop() }) { Text("Stop") }
        else -> Button(onClick = { asked.launch(Manifest.permission.RECORD_AUDIO) }, enabled = stage == Stage.Ready) {
            Text("Record")
        }
    }
}

/** The system's picker of documents, which needs no permission. */
@Composable
private fun FileButton(enabled: Boolean, writing: TranscribeModel) {
    val context = LocalContext.current
    val picker = rememberLauncherForActivityResult(OpenDocument()) { uri ->
        if (uri != null) writing.transcribe { copied(context, uri) }
    }
    Button(onClick = { picker.launch(arrayOf("audio/wav", "audio/x-wav", "audio/vnd.wave")) }, enabled = enabled) {
        Text("WAV file")
    }
}

/** A document in a file of the app's own, which the engine can read. */
private suspend fun copied(context: Context, uri: Uri): File = withContext(Dispatchers.IO) {
    val file = File(context.cacheDir, "sound.wav")
    val document = context.contentResolver.openInputStream(uri) ?: throw FileNotFoundException(uri.toString())
    document.use { from -> file.outputStream().use { from.copyTo(it) } }
    file
}

@Composable
private fun Status(stage: Stage, writing: TranscribeModel) {
    when (stage) {
        is Stage.Loading -> Progress(stage.step)
        is Stage.Failed -> {
            Text(stage.why)
            Button(onClick = { writing.load() }) { Text("Try again") }
        }
        Stage.Unloaded -> Button(onClick = { writing.load() }) { Text("Load the model") }
        else -> Button(onClick = { writing.unload() }) { Text("Unload") }
    }
}

@Composable
private fun Progress(step: LoadStep?) {
    when (step) {
        is LoadStep.Copying -> Share("Copying the model, once", step.bytes, step.of)
        is LoadStep.Checking -> Share("Checking the model's files", step.bytes, step.of)
        LoadStep.Comparing -> Text("Comparing its text with that at export")
        else -> Text("Loading the model")
    }
}

@Composable
private fun Share(text: String, bytes: Long, of: Long) {
    Text(text)
    LinearProgressIndicator(progress = { if (of > 0) bytes.toFloat() / of else 0f }, modifier = Modifier.fillMaxWidth())
}
