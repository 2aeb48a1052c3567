package dev.edgec.sample.sample

import dev.edgec.sample.ChatMessage
import dev.edgec.sample.LoadStep
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
import androidx.compose.material3.OutlinedTextField
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.collectAsState
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.remember
import androidx.compose.runtime.setValue
import androidx.compose.ui.Modifier
import androidx.compose.ui.unit.dp

/** The conversation, what is typed, and what the model is doing. */
@Composable
fun ChatScreen(chat: ChatModel) {
    val state by chat.state.collectAsState()
    MaterialTheme {
        Column(Modifier.fillMaxSize().safeDrawingPadding().padding(16.dp)) {
            Status(state.stage, chat)
            LazyColumn(Modifier.fillMaxWidth().weight(1f)) {
                items(state.lines) { line ->
                    Text(if (line.role == ChatMessage.Role.user) "You: ${line.text}" else line.text)
                    line.note?.let { Text(it, style = MaterialTheme.typography.bodySmall) }
                }
            }
            state.notice?.let { Text(it) }
            state.chosen.note?.let { Text("With the next message: $it") }
            Entry(state, chat)
        }
    }
}

@Composable
private fun Entry(state: ChatState, chat: ChatModel) {
    val stage = state.stage
    var typed by remember { mutableStateOf("") }
    Row {
        PictureButton(stage == Stage.Ready, state.chosen, chat::attach)
        OutlinedTextField(value = typed, onValueChange = { typed = it }, modifier = Modifier.weight(1f))
        if (stage == Stage.Answering) {
            Button(onClick = { chat.stop() }) { Text("Stop") }
        } else {
            val send = {
                chat.send(typed)
                if (chat.state.value.stage == Stage.Answering) typed = ""
            }
            Button(onClick = send, enabled = stage == Stage.Ready && typed.isNotEmpty()) { Text("Send") }
        }
    }
}

@Composable
private fun Status(stage: Stage, chat: ChatModel) {
    when (stage) {
        is Stage.Loading -> Progress(stage.step)
        is Stage.Failed -> {
            Text(stage.why)
            Button(onClick = { chat.load() }) { Text("Try again") }
        }
        Stage.Unloaded -> Button(onClick = { chat.load() }) { Text("Load the model") }
        Stage.Ready, Stage.Answering -> Row {
            Button(onClick = { chat.unload() }) { Text("Unload") }
            Button(onClick = { chat.clear() }, enabled = stage == Stage.Ready) { Text("New conversation") }
        }
    }
}

@Composable
private fun Progress(step: LoadStep?) {
    when (step) {
        is LoadStep.Copying -> Share("Copying the model, once", step.bytes, step.of)
        is LoadStep.Checking -> Share("Checking the model's files", step.bytes, step.of)
        LoadStep.Comparing -> Text("Comparing its answers with those at export")
        else -> Text("Loading the model")
    }
}

@Composable
private fun Share(text: String, bytes: Long, of: Long) {
    Text(text)
    LinearProgressIndicator(progress = { if (of > 0) bytes.toFloat() / of else 0f }, modifier = Modifier.fillMaxWidth())
}
