package dev.edgec.sample.bench

import dev.edgec.sample.ModelFacts
import dev.edgec.sample.ModelLimits
import android.app.ActivityManager
import android.content.Context
import android.os.Build
import java.io.File
import java.text.SimpleDateFormat
import java.util.Date
import java.util.Locale
import java.util.TimeZone
import java.util.UUID
import org.json.JSONArray
import org.json.JSONObject

/** The lines of the result, in the record schema of `edgec bench`, version 1; null means unavailable. */
class BenchRecords(private val context: Context, private val job: JSONObject) {
    private val identifier = UUID.randomUUID().toString()

    fun run(startedMs: Long, before: JSONObject, after: JSONObject): JSONObject = common(
        "kind" to "run",
        "obtained" to "measured",
        "started" to utc(startedMs),
        "edgec_version" to job.getString("edgec_version"),
        "warmups" to job.getInt("warmups"),
        "repetitions" to job.getInt("repetitions"),
        "ignore_eos" to true,
        "before" to before,
        "after" to after,
        "energy_j" to JSONObject.NULL,
    )

    fun load(ms: Double): JSONObject = common(
        "kind" to "load",
        "obtained" to "measured: System.nanoTime in the app, checks included, after a first load",
        "state" to "warm",
        "load_ms" to ms,
        "resident_share" to JSONObject.NULL,
    )

    fun memory(peak: Long, baseline: Long): JSONObject = common(
        "kind" to "memory",
        "obtained" to "measured: VmHWM of /proc/self/status",
        "peak_rss_bytes" to peak,
        "baseline_rss_bytes" to baseline,
    )

    fun repetition(index: Int, lap: Lap): JSONObject = common(
        "kind" to "repetition",
        "obtained" to "measured: System.nanoTime in the app, after ${job.getInt("warmups")} warm-ups",
        "index" to index,
        "ttft_ms" to 1000 * lap.firstTokenS,
        "prefill_tokens_per_s" to job.getInt("prompt_tokens") / lap.firstTokenS,
        "decode_tokens_per_s" to (if (lap.gapsS.isEmpty()) JSONObject.NULL else lap.gapsS.size / lap.gapsS.sum()),
        "token_ms" to JSONArray(lap.gapsS.map { 1000 * it }),
        "tokens" to lap.gapsS.size + 1,
        "finish_reason" to (if (lap.gapsS.size + 1 == job.getInt("new_tokens")) "length" else "context"),
    )

    fun sustained(elapsed: Double, gaps: List<Double>): JSONObject = common(
        "kind" to "sustained",
        "obtained" to "measured: System.nanoTime in the app",
        "elapsed_s" to elapsed,
        "decode_tokens_per_s" to gaps.size / gaps.sum(),
        "clock_mhz" to JSONObject.NULL,
        "temperature_c" to JSONObject.NULL,
    )

    /** The facts that the device reports about itself. */
    fun device(): JSONObject = record(
        "system" to "Android ${Build.VERSION.RELEASE}",
        "cpu" to "${Build.MANUFACTURER} ${Build.MODEL}, ${Build.HARDWARE}",
        "cores" to Runtime.getRuntime().availableProcessors(),
        "memory_bytes" to totalMemoryBytes(),
        "governor" to JSONObject.NULL,
        "clock_mhz" to JSONObject.NULL,
        "load_average" to JSONObject.NULL,
        "temperature_c" to JSONObject.NULL,
        "executed_in" to "app",
    )

    fun residentBytes(): Long = statusBytes("VmRSS")

    fun peakResidentBytes(): Long = statusBytes("VmHWM")

    private fun comparability(): JSONObject = record(
        "schema_version" to 1,
        "device" to job.getString("device"),
        "machine" to "${Build.MANUFACTURER} ${Build.MODEL}, ${Build.HARDWARE} x${Runtime.getRuntime().availableProcessors()}",
        "model" to ModelFacts.MODEL,
        "model_parameters" to ModelFacts.PARAMETERS,
        "prompt_tokens" to job.getInt("prompt_tokens"),
        "new_tokens" to job.getInt("new_tokens"),
        "threads" to Runtime.getRuntime().availableProcessors(),
        "runtime" to "${ModelFacts.RUNTIME} ${ModelFacts.RUNTIME_VERSION}, ${ModelFacts.FORMAT}, ${ModelFacts.BUILT_AS}",
    )

    private fun subject(): JSONObject = record(
        "name" to ModelFacts.NAME,
        "digest" to ModelFacts.DIGEST,
        "recipe" to ModelFacts.RECIPE,
        "target" to ModelFacts.TARGET,
        "artifact_bytes" to ModelFacts.ARTIFACT_BYTES,
        "context" to ModelLimits.CONTEXT,
    )

    private fun common(vararg own: Pair<String, Any>): JSONObject = record(
        "schema_version" to 1,
        "run" to identifier,
        "comparability" to comparability(),
        "subject" to subject(),
        *own,
    )

    private fun record(vararg fields: Pair<String, Any>): JSONObject =
        fields.fold(JSONObject()) { record, (name, value) -> record.put(name, value) }

    private fun statusBytes(field: String): Long {
        val line = File("/proc/self/status").readLines().first { it.startsWith("$field:") }
        return 1024 * line.filter { it.isDigit() }.toLong()
    }

    private fun totalMemoryBytes(): Long {
        val info = ActivityManager.MemoryInfo()
        (context.getSystemService(Context.ACTIVITY_SERVICE) as ActivityManager).getMemoryInfo(info)
        return info.totalMem
    }

    private fun utc(ms: Long): String {
        val format = SimpleDateFormat("yyyy-MM-dd'T'HH:mm:ss'Z'", Locale.ROOT)
        format.timeZone = TimeZone.getTimeZone("UTC")
        return format.format(Date(ms))
    }
}
