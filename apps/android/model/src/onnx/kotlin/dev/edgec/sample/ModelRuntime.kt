package dev.edgec.sample

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtSession
import android.content.Context
import android.system.Os
import java.io.Closeable
import java.io.File

/** The artifact's models in ONNX Runtime, part after part: each begins with a model for the CPU, if it has one. */
internal class ModelRuntime private constructor(artifact: File, private val libraries: String) : Closeable {
    private val environment = OrtEnvironment.getEnvironment()
    private val folders = artifact.listFiles { file -> file.name.startsWith(PART) }
        ?.sortedBy { it.name.removePrefix(PART).toInt() }?.ifEmpty { null } ?: listOf(artifact)
    private val sessions = METHODS.associateWith { mutableListOf<OrtSession>() }
    private var closed = false

    init {
        for (folder in folders) for (method in METHODS) open(folder, method)
    }

    private fun open(folder: File, method: String) {
        val host = File(folder, "host_$method.onnx")
        if (host.exists()) sessions.getValue(method) += environment.createSession(host.path, onCpu())
        val options = if (ACCELERATED) onHexagon(last = method == METHODS.last()) else onCpu()
        sessions.getValue(method) += environment.createSession(File(folder, "$method.onnx").path, options)
    }

    private fun onCpu() = OrtSession.SessionOptions().apply {
        // By default ONNX Runtime rounds the activations of 4-bit layers to 8 bits.
        addConfigEntry("session.qdq_matmulnbits_accuracy_level", "1")
    }

    /** Options for Hexagon: both methods of a part share one context, and nothing may fall back to the CPU silently. */
    private fun onHexagon(last: Boolean) = OrtSession.SessionOptions().apply {
        addConfigEntry("session.disable_cpu_ep_fallback", "1")
        addConfigEntry("ep.share_ep_contexts", "1")
        if (last) addConfigEntry("ep.stop_share_ep_contexts", "1")
        val devices = environment.epDevices.filter { it.epName == PROVIDER }
        if (devices.isEmpty()) throw RuntimeDiffers("ONNX Runtime finds no Hexagon processor")
        addExecutionProvider(devices, mapOf("backend_path" to "$libraries/libQnnHtp.so", "htp_performance_mode" to "burst"))
    }

    /** Execute the models of a method; [take] sees every output before it is freed. */
    @Synchronized
    fun execute(method: String, given: Map<String, OnnxTensor>, take: (String, OnnxTensor) -> Unit) {
        if (closed) throw ModelClosed()
        val values = given.toMutableMap()
        val results = mutableListOf<OrtSession.Result>()
        try {
            for (session in sessions.getValue(method)) {
                val inputs = session.inputNames.associateWith {
                    values[it] ?: throw RuntimeDiffers("$method needs $it")
                }
                val result = session.run(inputs).also { results += it }
                for ((name, value) in result) {
                    val tensor = value as OnnxTensor
                    take(name, tensor)
                    values[if (name == "next_hidden") "hidden" else name] = tensor
                }
            }
        } finally {
            results.forEach { it.close() }
        }
    }

    /** This runtime adds no adapters. */
    fun useAdapter(file: File?, @Suppress("UNUSED_PARAMETER") base: String) {
        if (file != null) throw AdapterRefused("only edgec's engine adds adapters, and this artifact has another runtime")
    }

    /** Waits for a call that runs. */
    @Synchronized
    override fun close() {
        if (!closed) sessions.values.flatten().forEach { it.close() }
        closed = true
    }

    companion object {
        private const val PART = "part_"
        private const val PROVIDER = "QNNExecutionProvider"
        private val ACCELERATED = ModelFacts.IS_ACCELERATED
        private val METHODS = ModelFacts.methods.map { it.name }
        private var registered = false

        fun open(context: Context, artifact: File): ModelRuntime {
            val libraries = context.applicationInfo.nativeLibraryDir
            if (ACCELERATED && !registered) {
                Os.setenv("ADSP_LIBRARY_PATH", libraries, true)
                val plugIn = "$libraries/libonnxruntime_providers_qnn.so"
                OrtEnvironment.getEnvironment().registerExecutionProviderLibrary(PROVIDER, plugIn)
                registered = true
            }
            return ModelRuntime(artifact, libraries)
        }
    }
}
