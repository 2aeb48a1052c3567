package dev.edgec.sample.sample

import androidx.compose.runtime.Composable

/** There is nothing to choose. */
@Composable
@Suppress("UNUSED_PARAMETER")
fun PictureButton(enabled: Boolean, chosen: Pictures, choose: (Pictures) -> Unit) = Unit
