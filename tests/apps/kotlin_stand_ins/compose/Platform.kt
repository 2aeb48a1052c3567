package androidx.compose.ui.platform

import android.content.Context

class CompositionLocal<T> { val current: T get() = TODO() }

val LocalContext = CompositionLocal<Context>()
