package dev.edgec.sample.json

import dev.edgec.sample.ChatMessage
import dev.edgec.sample.EdgecModel
import dev.edgec.sample.GenerationOptions
import dev.edgec.sample.ModelSchema
import kotlinx.serialization.decodeFromString
import kotlinx.serialization.json.Json

/**
 * Answer a text with a value of a class that has `@Serializable`: the answer is held to a [schema] of the bundle, and
 * decoded from its JSON.
 *
 * Throws `AnswerUnfinished` where the tokens run out before the JSON is whole, and `SerializationException` where the schema
 * allows what the class does not take.
 */
suspend inline fun <reified T> EdgecModel.generateValue(
    prompt: String,
    schema: ModelSchema,
    options: GenerationOptions = GenerationOptions(),
    json: Json = Json,
): T = json.decodeFromString(generateJson(prompt, schema, options))

/** Answer a conversation with a value, as [generateValue] does a text. */
suspend inline fun <reified T> EdgecModel.chatValue(
    messages: List<ChatMessage>,
    schema: ModelSchema,
    options: GenerationOptions = GenerationOptions(),
    json: Json = Json,
): T = json.decodeFromString(chatJson(messages, schema, options))
