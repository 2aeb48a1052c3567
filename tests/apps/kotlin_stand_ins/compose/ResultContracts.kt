package androidx.activity.result.contract

import android.net.Uri
import androidx.activity.result.PickVisualMediaRequest

/** A stand-in: what is asked of another screen, and what comes of it. */
abstract class ActivityResultContract<I, O>

object ActivityResultContracts {
    class PickVisualMedia : ActivityResultContract<PickVisualMediaRequest, Uri?>() {
        sealed interface VisualMediaType

        object ImageOnly : VisualMediaType
    }

    class OpenDocument : ActivityResultContract<Array<String>, Uri?>()

    class RequestPermission : ActivityResultContract<String, Boolean>()
}
