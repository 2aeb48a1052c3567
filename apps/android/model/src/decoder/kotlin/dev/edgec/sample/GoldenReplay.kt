package dev.edgec.sample

import java.io.File
import org.json.JSONArray
import org.json.JSONObject

/** Replays golden.json on this device, at the first start of a bundle. */
internal class GoldenReplay(bundle: File) {
    private val golden = JSONObject(File(bundle, "golden.json").readText())

    /** Every text must give the ids and be shown as at export, except those whose labels are accepted. */
    fun checkTokens(tokenization: Tokenization, accepted: Set<String>) {
        val differing = GoldenTexts(golden).differing(tokenization::decode) { tokenization.encode(it) }.toMutableList()
        if (ChatPrompt.KNOWN) differing += chats().filterNot { isRendered(it, tokenization) }.map(::label)
        differing.removeAll(accepted)
        if (differing.isNotEmpty()) throw TokenizerDiffers(differing)
    }

    /** The greedy continuation must be the same as at export, except where its lead was within the tolerance. */
    fun checkOutputs(session: Session) {
        for (output in objects(golden.getJSONArray("outputs"))) check(output, session)
        session.reset()
    }

    private fun check(output: JSONObject, session: Session) {
        var tokens = integers(output.getJSONArray("prompt_ids"))
        val margins = output.getJSONArray("margins")
        session.beginProbe(tokens)
        for ((index, expected) in integers(output.getJSONArray("continuation_ids")).withIndex()) {
            val logits = session.prefill(tokens)
            val likeliest = logits.indices.maxBy { logits[it] }
            if (likeliest != expected && margins.getDouble(index) > output.getDouble("tolerance")) {
                throw OutputDiffers("after ${tokens.size} tokens the likeliest is $likeliest instead of $expected")
            }
            tokens = tokens + expected
        }
    }

    private fun chats(): List<JSONObject> {
        val more = if (golden.has("chats")) objects(golden.getJSONArray("chats")) else listOf()
        return listOfNotNull(golden.optJSONObject("chat")) + more
    }

    private fun label(chat: JSONObject) = if (chat.has("label")) chat.getString("label") else "chat"

    private fun isRendered(chat: JSONObject, tokenization: Tokenization): Boolean {
        val messages = objects(chat.getJSONArray("messages")).map {
            ChatMessage(ChatMessage.Role.valueOf(it.getString("role")), it.getString("content"))
        }
        val clock = if (chat.has("dated")) PromptClock.GOLDEN else PromptClock.now()
        val text = try { ChatPrompt.render(messages, clock) } catch (_: EdgecException) { return false }
        return text == chat.getString("rendered") && tokenization.encode(text, false) == integers(chat.getJSONArray("ids"))
    }

    private fun objects(array: JSONArray) = (0 until array.length()).map { array.getJSONObject(it) }

    private fun integers(array: JSONArray) = (0 until array.length()).map { array.getInt(it) }
}
