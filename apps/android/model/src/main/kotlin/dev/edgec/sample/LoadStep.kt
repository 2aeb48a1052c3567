package dev.edgec.sample

import java.io.Closeable
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.withContext

/** What `load` is doing; only at the first start is the bundle copied and hashed, and are its golden vectors replayed. */
sealed interface LoadStep {
    /** Copying the bundle out of the assets, since the runtime maps files. */
    data class Copying(val bytes: Long, val of: Long) : LoadStep

    /** Hashing the bundle's files. */
    data class Checking(val bytes: Long, val of: Long) : LoadStep

    /** Opening tokenizer and model. */
    data object Loading : LoadStep

    /** Replaying the golden vectors. */
    data object Comparing : LoadStep
}

/** What [open] makes, away from the main thread; it is closed again where nobody waits for it any more. */
internal suspend fun <T : Closeable> opened(open: () -> T): T {
    var made: T? = null
    try {
        return withContext(Dispatchers.IO) { open().also { made = it } }
    } catch (gone: CancellationException) {
        made?.close()
        throw gone
    }
}
