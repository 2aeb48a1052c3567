// After the sources of google-ai-edge/LiteRT-LM (kotlin/java/com/google/ai/edge/litertlm): what the module calls.
package com.google.ai.edge.litertlm

import java.util.concurrent.CancellationException
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.callbackFlow

class LiteRtLmJniException(message: String) : RuntimeException(message)

sealed class Backend(val name: String) {
    data class CPU(
        val threadCount: Int? = null,
        @Deprecated("Use threadCount instead", ReplaceWith("threadCount")) val numOfThreads: Int? = null,
    ) : Backend("CPU")

    class GPU : Backend("GPU")
}

enum class ActivationDataType { FLOAT32, FLOAT16, INT16, INT8 }

data class EngineConfig
@JvmOverloads
constructor(
    val modelPath: String,
    val backend: Backend = Backend.CPU(),
    val visionBackend: Backend? = null,
    val audioBackend: Backend? = null,
    val maxNumTokens: Int? = null,
    val maxNumImages: Int? = null,
    val cacheDir: String? = null,
    val activationDataType: ActivationDataType? = null,
)

data class SamplerConfig(val topK: Int, val topP: Double, val temperature: Double, val seed: Int = 0)

class Message internal constructor(val contents: Contents) {
    override fun toString() = contents.toString()
}

class Contents private constructor(val contents: List<String>) {
    override fun toString() = contents.joinToString("")

    companion object {
        fun of(text: String) = Contents(listOf(text))
    }
}

data class ConversationConfig
@JvmOverloads
constructor(
    val systemInstruction: Contents? = null,
    val initialMessages: List<Message> = listOf(),
    val tools: List<Any> = listOf(),
    val samplerConfig: SamplerConfig? = null,
    val automaticToolCalling: Boolean = true,
)

/** Engines count themselves, and the one whose file is named "refused" does not start. */
class Engine(val engineConfig: EngineConfig) : AutoCloseable {
    private var handle: Long? = null

    fun isInitialized(): Boolean = handle != null

    fun initialize() {
        check(!isInitialized()) { "Engine is already initialized." }
        if (java.io.File(engineConfig.modelPath).readText() == "refused") throw LiteRtLmJniException("no such model")
        handle = ++started
    }

    override fun close() {
        check(isInitialized()) { "Engine is not initialized." }
        handle = null
    }

    fun createConversation(conversationConfig: ConversationConfig = ConversationConfig()): Conversation {
        check(isInitialized()) { "Engine is not initialized." }
        return Conversation(checkNotNull(handle), conversationConfig)
    }

    companion object {
        var started = 0L
    }
}

interface MessageCallback {
    fun onMessage(message: Message)

    fun onDone()

    fun onError(throwable: Throwable)
}

/** It answers a message with as many numbers as it has letters, then with the turns so far; "fail" fails, "long" never ends. */
class Conversation(private val handle: Long, private val config: ConversationConfig) : AutoCloseable {
    private var turns = 0
    @Volatile private var cancelled = false
    var isAlive = true
        private set

    fun sendMessageAsync(text: String, callback: MessageCallback, extraContext: Map<String, Any> = emptyMap()) {
        check(isAlive) { "Conversation is not alive." }
        cancelled = false
        turns++
        Thread {
            var place = 0
            while (!cancelled && (text == "long" || place < text.length)) {
                callback.onMessage(Message(Contents.of("${place++} ")))
                if (text == "long") Thread.sleep(1)
            }
            when {
                cancelled -> callback.onError(CancellationException("cancelled"))
                text == "fail" -> callback.onError(LiteRtLmJniException("Status Code: 13."))
                else -> {
                    callback.onMessage(Message(Contents.of("turn $turns of engine $handle after ${config.systemInstruction}")))
                    callback.onDone()
                }
            }
        }.start()
    }

    // Its buffer is that of the real one: what does not fit is lost.
    fun sendMessageAsync(text: String, extraContext: Map<String, Any> = emptyMap()): Flow<Message> = callbackFlow {
        sendMessageAsync(
            text,
            object : MessageCallback {
                override fun onMessage(message: Message) {
                    val unused = trySend(message)
                }

                override fun onDone() {
                    close()
                }

                override fun onError(throwable: Throwable) {
                    close(throwable)
                }
            },
            extraContext,
        )
        awaitClose {}
    }

    fun cancelProcess() {
        check(isAlive) { "Conversation is not alive." }
        cancelled = true
        cancels++
    }

    override fun close() {
        check(isAlive) { "Conversation is closed already." }
        isAlive = false
    }

    companion object {
        var cancels = 0
    }
}
