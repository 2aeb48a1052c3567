@file:Suppress("UNUSED_PARAMETER")

package androidx.compose.foundation.layout

import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import androidx.compose.ui.unit.Dp

interface ColumnScope { fun Modifier.weight(weight: Float): Modifier }

interface RowScope { fun Modifier.weight(weight: Float): Modifier }

@Composable fun Column(modifier: Modifier = Modifier, content: @Composable ColumnScope.() -> Unit) {}

@Composable fun Row(modifier: Modifier = Modifier, content: @Composable RowScope.() -> Unit) {}

fun Modifier.fillMaxSize(): Modifier = this

fun Modifier.fillMaxWidth(): Modifier = this

fun Modifier.padding(all: Dp): Modifier = this

fun Modifier.safeDrawingPadding(): Modifier = this
