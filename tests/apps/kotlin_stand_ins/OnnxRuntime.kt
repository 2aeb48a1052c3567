package ai.onnxruntime

import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import java.nio.IntBuffer
import java.io.File
import java.util.Optional

/** A stand-in of ONNX Runtime's Java classes over the same model as ExecuTorch's: next token from the last two positions. */
enum class OnnxJavaType { FLOAT, UINT8 }

interface OnnxValue : AutoCloseable

class OnnxTensor(val held: Any, val shape: LongArray) : OnnxValue {
    var closed = false

    /** A copy of the content. */
    fun getByteBuffer(): ByteBuffer = when (held) {
        is ByteBuffer -> ByteBuffer.wrap(ByteArray(held.capacity()) { held.get(it) })
        is FloatBuffer -> ByteBuffer.allocate(4 * held.capacity()).order(ByteOrder.nativeOrder()).also { bytes ->
            for (place in 0 until held.capacity()) bytes.putFloat(4 * place, held.get(place))
        }
        else -> error("no bytes")
    }

    fun getFloatBuffer(): FloatBuffer = (held as FloatBuffer).duplicate()

    override fun close() {
        closed = true
    }

    companion object {
        @JvmStatic fun createTensor(env: OrtEnvironment, data: FloatBuffer, shape: LongArray) = OnnxTensor(data, shape)

        @JvmStatic fun createTensor(env: OrtEnvironment, data: IntBuffer, shape: LongArray) = OnnxTensor(data, shape)

        @JvmStatic fun createTensor(env: OrtEnvironment, data: ByteBuffer, shape: LongArray, type: OnnxJavaType) =
            OnnxTensor(data, shape)
    }
}

class OrtEpDevice(val epName: String)

class OrtEnvironment private constructor() {
    private val found = mutableListOf<OrtEpDevice>()
    val epDevices: List<OrtEpDevice> get() = found

    fun registerExecutionProviderLibrary(name: String, path: String) {
        check(path.endsWith("libonnxruntime_providers_qnn.so"))
        found += OrtEpDevice(name)
    }

    fun createSession(path: String, options: OrtSession.SessionOptions) = OrtSession(File(path), options)

    companion object {
        private val one = OrtEnvironment()

        @JvmStatic fun getEnvironment(): OrtEnvironment = one
    }
}

class OrtSession(private val file: File, private val options: SessionOptions) : AutoCloseable {
    class SessionOptions {
        val entries = mutableMapOf<String, String>()
        var devices = listOf<OrtEpDevice>()

        fun addConfigEntry(key: String, value: String) {
            entries[key] = value
        }

        fun addExecutionProvider(devices: List<OrtEpDevice>, options: Map<String, String>) {
            this.devices = devices
        }
    }

    class Result(private val values: Map<String, OnnxValue>) : AutoCloseable, Iterable<Map.Entry<String, OnnxValue>> {
        override fun iterator() = values.entries.iterator()

        fun get(name: String): Optional<OnnxValue> = Optional.ofNullable(values[name])

        override fun close() = values.values.forEach { it.close() }
    }

    private val isHost = file.name.startsWith("host_")
    private val behindHost = !isHost && File(file.parentFile, "host_${file.name}").exists()

    init {
        check(file.exists()) { "$file" }
        // What follows a model for the CPU runs on Hexagon, without a fallback.
        check(behindHost == options.devices.isNotEmpty())
        check(behindHost == (options.entries["session.disable_cpu_ep_fallback"] == "1"))
    }

    val inputNames: Set<String>
        get() = when {
            isHost -> setOf("tokens", "start")
            behindHost -> setOf("host_0", "host_1", "last") + STATES
            else -> setOf("tokens", "start", "last") + STATES
        }

    fun run(inputs: Map<String, OnnxTensor>): Result {
        check(inputs.keys == inputNames && inputs.values.none { it.closed })
        if (isHost) return Result(mapOf("host_0" to floats(inputs, "tokens"), "host_1" to floats(inputs, "start")))
        val names = if (behindHost) listOf("host_0", "host_1") else listOf("tokens", "start")
        val (tokens, starts) = names.map { numbers(inputs.getValue(it)) }
        return computed(tokens, starts[0], numbers(inputs.getValue("last"))[0], STATES.map { inputs.getValue(it) })
    }

    private fun floats(inputs: Map<String, OnnxTensor>, name: String): OnnxTensor {
        val values = numbers(inputs.getValue(name))
        return OnnxTensor(FloatBuffer.wrap(FloatArray(values.size) { values[it].toFloat() }), longArrayOf(1))
    }

    private fun numbers(tensor: OnnxTensor): List<Int> = when (val held = tensor.held) {
        is IntBuffer -> List(held.capacity()) { held.get(it) }
        is FloatBuffer -> List(held.capacity()) { held.get(it).toInt() }
        else -> error("no numbers")
    }

    private fun computed(tokens: List<Int>, start: Int, last: Int, states: List<OnnxTensor>): Result {
        org.pytorch.executorch.Module.calls += tokens.size
        val before = List(start) { slot -> states.map { token(it, slot) }.toSet().single() }
        val all = before + tokens.take(last + 1)
        val next = (31 * all.last() + 7 * (all.size - 1) + (all.getOrNull(all.size - 2) ?: 0)) % 96 + 32
        val logits = FloatBuffer.wrap(FloatArray(512) { if (it == next) 5f else -0.001f * it })
        return Result(mapOf("logits" to OnnxTensor(logits, longArrayOf(1, 1, 512))) + rows(tokens, states))
    }

    /** Rows hold the token in every place, bytes or floats; the second head its opposite. */
    private fun rows(tokens: List<Int>, states: List<OnnxTensor>): Map<String, OnnxTensor> =
        STATES.zip(states).associate { (name, state) ->
            val values = List(HEADS * tokens.size * WIDTH) { place ->
                tokens[place / WIDTH % tokens.size].let { if (place / WIDTH < tokens.size) it else -it }
            }
            val held: Any = if (state.held is ByteBuffer) ByteBuffer.wrap(ByteArray(values.size) { values[it].toByte() })
            else FloatBuffer.wrap(FloatArray(values.size) { values[it].toFloat() })
            "new_$name" to OnnxTensor(held, longArrayOf(1, HEADS.toLong(), tokens.size.toLong(), WIDTH.toLong()))
        }

    private fun token(state: OnnxTensor, slot: Int): Int {
        val read: (Int) -> Int = when (val held = state.held) {
            is ByteBuffer -> { place -> held.get(place).toInt() }
            is FloatBuffer -> { place -> held.get(place).toInt() }
            else -> error("no state")
        }
        val slots = state.shape[2].toInt()
        val found = List(HEADS) { head -> List(WIDTH) { read((head * slots + slot) * WIDTH + it) * (1 - 2 * head) } }
        return found.flatten().toSet().single()
    }

    override fun close() {}

    companion object {
        const val HEADS = 2
        const val WIDTH = 4
        val STATES = setOf("key_cache_0", "value_cache_0")
    }
}
