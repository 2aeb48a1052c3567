@file:Suppress("UNUSED_PARAMETER", "UnusedReceiverParameter")

package androidx.activity.compose

import androidx.compose.runtime.Composable

fun androidx.activity.ComponentActivity.setContent(content: @Composable () -> Unit) {}
