@file:Suppress("UNUSED_PARAMETER", "FunctionName")

package androidx.activity.result

import androidx.activity.result.contract.ActivityResultContracts.PickVisualMedia

class PickVisualMediaRequest internal constructor()

fun PickVisualMediaRequest(mediaType: PickVisualMedia.VisualMediaType) = PickVisualMediaRequest()
