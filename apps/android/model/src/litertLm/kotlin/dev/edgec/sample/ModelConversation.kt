package dev.edgec.sample

import com.google.ai.edge.litertlm.Conversation
import com.google.ai.edge.litertlm.LiteRtLmJniException
import java.io.Closeable
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.flowOn
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock

/** A conversation whose earlier turns LiteRT-LM keeps. Messages are answered one after another. */
class ModelConversation internal constructor(private val conversation: Conversation) : Closeable {
    private val oneAtATime = Mutex()

    /**
     * Answer a message; each element is a piece of new text. Pieces wait for a slow collector, and cancelling the
     * collection ends the answer.
     */
    fun send(text: String): Flow<String> = flow {
        oneAtATime.withLock {
            if (!conversation.isAlive) throw ModelClosed()
            try {
                // Without room for all, LiteRT-LM drops pieces that a slow collector did not take yet.
                conversation.sendMessageAsync(text).buffer(Channel.UNLIMITED).collect { emit(it.toString()) }
            } catch (failed: LiteRtLmJniException) {
                throw LiteRtLmFailed(failed.message.orEmpty())
            } catch (gone: CancellationException) {
                stop()
                throw gone
            }
        }
    }.buffer(Channel.UNLIMITED).flowOn(Dispatchers.Default)

    /** End the answer that is being made. */
    fun stop() {
        if (conversation.isAlive) conversation.cancelProcess()
    }

    override fun close() {
        if (!conversation.isAlive) return
        conversation.cancelProcess()
        conversation.close()
    }
}
