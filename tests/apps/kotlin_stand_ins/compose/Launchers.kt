@file:Suppress("UNUSED_PARAMETER")

package androidx.activity.compose

import androidx.activity.result.contract.ActivityResultContract
import androidx.compose.runtime.Composable

/** A stand-in: nothing is launched. */
class ManagedActivityResultLauncher<I, O> { fun launch(input: I) {} }

@Composable fun <I, O> rememberLauncherForActivityResult(
    contract: ActivityResultContract<I, O>,
    onResult: (O) -> Unit,
): ManagedActivityResultLauncher<I, O> = ManagedActivityResultLauncher()
