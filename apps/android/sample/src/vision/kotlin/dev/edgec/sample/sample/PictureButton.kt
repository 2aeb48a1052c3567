package dev.edgec.sample.sample

import androidx.activity.compose.rememberLauncherForActivityResult
import androidx.activity.result.PickVisualMediaRequest
import androidx.activity.result.contract.ActivityResultContracts.PickVisualMedia
import androidx.compose.material3.Button
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.platform.LocalContext
import dev.edgec.sample.EncodedImage

/** The system's picker of photos, which needs no permission; what was chosen can be read for as long as the app runs. */
@Composable
fun PictureButton(enabled: Boolean, chosen: Pictures, choose: (Pictures) -> Unit) {
    val resolver = LocalContext.current.contentResolver
    val picker = rememberLauncherForActivityResult(PickVisualMedia()) { uri ->
        if (uri != null) choose(chosen + EncodedImage(resolver, uri))
    }
    Button(onClick = { picker.launch(PickVisualMediaRequest(PickVisualMedia.ImageOnly)) }, enabled = enabled) { Text("Picture") }
}
