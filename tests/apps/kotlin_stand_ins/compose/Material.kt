@file:Suppress("UNUSED_PARAMETER")

package androidx.compose.material3

import androidx.compose.foundation.layout.RowScope
import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import androidx.compose.ui.text.TextStyle

class Typography { val bodySmall = TextStyle() }

object MaterialTheme { val typography: Typography get() = Typography() }

@Composable fun MaterialTheme(content: @Composable () -> Unit) {}

@Composable fun Text(text: String, modifier: Modifier = Modifier, style: TextStyle = TextStyle()) {}

@Composable fun Button(
    onClick: () -> Unit,
    modifier: Modifier = Modifier,
    enabled: Boolean = true,
    content: @Composable RowScope.() -> Unit,
) {}

@Composable fun OutlinedTextField(value: String, onValueChange: (String) -> Unit, modifier: Modifier = Modifier) {}

@Composable fun LinearProgressIndicator(progress: () -> Float, modifier: Modifier = Modifier) {}
