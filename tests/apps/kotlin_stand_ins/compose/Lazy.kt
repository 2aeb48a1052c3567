@file:Suppress("UNUSED_PARAMETER", "UnusedReceiverParameter")

package androidx.compose.foundation.lazy

import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier

interface LazyListScope

interface LazyItemScope

@Composable fun LazyColumn(modifier: Modifier = Modifier, content: LazyListScope.() -> Unit) {}

fun <T> LazyListScope.items(items: List<T>, itemContent: @Composable LazyItemScope.(item: T) -> Unit) {}
