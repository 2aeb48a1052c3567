package androidx.compose.ui.unit

class Dp

val Int.dp: Dp get() = Dp()
