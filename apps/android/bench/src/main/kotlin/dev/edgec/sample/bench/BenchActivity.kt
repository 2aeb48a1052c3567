package dev.edgec.sample.bench

import dev.edgec.sample.EdgecModel
import dev.edgec.sample.GenerationOptions
import dev.edgec.sample.ModelLimits
import android.app.Activity
import android.os.Bundle
import android.widget.TextView
import java.io.File
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.MainScope
import kotlinx.coroutines.cancel
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.launch
import kotlinx.coroutines.withContext
import org.json.JSONObject

/** One generation: seconds to the first token, and from each token to the next. */
class Lap(val firstTokenS: Double, val gapsS: List<Double>)

/** Runs job.json from the app's external files once and writes result.jsonl beside it; only that file is the result. */
class BenchActivity : Activity() {
    private val scope: CoroutineScope = MainScope()

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        val view = TextView(this)
        setContentView(view)
        val folder = getExternalFilesDir(null) ?: filesDir
        scope.launch {
            view.text = try {
                val lines = withContext(Dispatchers.Default) { measure(JSONObject(File(folder, "job.json").readText())) }
                val aside = File(folder, ".result.jsonl")
                aside.writeText(lines.joinToString("") { "$it\n" })
                aside.renameTo(File(folder, "result.jsonl"))
                "done"
            } catch (error: Exception) {
                File(folder, "error.txt").writeText(error.toString())
                "failed: $error"
            }
        }
    }

    override fun onDestroy() {
        scope.cancel()
        super.onDestroy()
    }

    private suspend fun measure(job: JSONObject): List<JSONObject> {
        val records = BenchRecords(this, job)
        val started = System.currentTimeMillis()
        val before = records.device()
        val baseline = records.residentBytes()
        var model = EdgecModel.load(this)
        lap(model, job)
        val results = mutableListOf(records.memory(records.peakResidentBytes(), baseline))
        repeat(job.getInt("loads")) {
            model.close()
            val begin = System.nanoTime()
            model = EdgecModel.load(this)
            results += records.load(1e-6 * (System.nanoTime() - begin))
        }
        repeat(job.getInt("warmups")) { lap(model, job) }
        repeat(job.getInt("repetitions")) { results += records.repetition(it, lap(model, job)) }
        val begin = System.nanoTime()
        while (1e-9 * (System.nanoTime() - begin) < job.getDouble("sustained_seconds")) {
            val elapsed = 1e-9 * (System.nanoTime() - begin)
            val gaps = mutableListOf<Double>()
            // With one token there is no time between tokens, and the loop would never end.
            while (gaps.sum() < 1) gaps += lap(model, job).gapsS.ifEmpty { error("new_tokens must be at least 2") }
            results += records.sustained(elapsed, gaps)
        }
        model.close()
        return listOf(records.run(started, before, records.device())) + results
    }

    /** Generate greedily from an empty cache. */
    private suspend fun lap(model: EdgecModel, job: JSONObject): Lap {
        model.reset()
        val prompt = prompt(job.getInt("prompt_tokens"))
        val options = GenerationOptions(maxNewTokens = job.getInt("new_tokens"), repetitionPenalty = 1f)
        val begin = System.nanoTime()
        val times = mutableListOf<Double>()
        model.generate(prompt, options).collect { times += 1e-9 * (System.nanoTime() - begin) }
        return Lap(times.first(), times.zipWithNext { earlier, later -> later - earlier })
    }

    /** Seeded token ids for the prompt; the speed of a dense model does not depend on them. */
    private fun prompt(count: Int): List<Int> {
        var state = 0L
        return List(count) {
            state = state * 6364136223846793005L + 1442695040888963407L
            ((state ushr 33) % ModelLimits.VOCABULARY).toInt()
        }
    }
}
