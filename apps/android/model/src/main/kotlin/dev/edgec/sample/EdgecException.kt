package dev.edgec.sample

import java.io.File

/** An error between an app and its model; the message says what to do. */
open class EdgecException(message: String) : Exception(message)

class BundleAltered(file: String, why: String) :
    EdgecException("$file is not the file that was exported: $why. Run `edgec embed` again and rebuild the app.")

/** [code] is that of `edgec verify --public-key` for the same: E130, E601 to E604. */
class SignatureRefused(val code: String, val why: String) :
    EdgecException("The bundle is not what the holder of the app's key signed: $why. Get it again from there. [$code]")

class BundleDoesNotFit(val parts: List<String>) :
    EdgecException(
        "The signed bundle does not fit this app, which was made for other ${parts.joinToString()}. Update the app, or " +
            "sign a bundle that was exported like the app's own.",
    )

class NotEnoughMemory(needed: Long, available: Long) :
    EdgecException(
        "The model needs about $needed bytes (estimated); $available are available (measured). Use fewer bits.",
    )

class RuntimeDiffers(why: String) :
    EdgecException("The runtime does not match the exported artifact: $why. Use the version in build.gradle.kts.")

class TokenizerDiffers(labels: List<String>) :
    EdgecException("The tokenizer gives ids that differ from those at export for: ${labels.joinToString()}.")

class OutputDiffers(why: String) :
    EdgecException("The model's outputs differ from those at export: $why. Do not ship it on this device.")

class AdapterRefused(why: String) :
    EdgecException("The adapter cannot be added: $why. Make one for this bundle with `edgec adapter`.")

class PromptTooLong(tokens: Int, context: Int) :
    EdgecException("The prompt has $tokens tokens; the context holds $context. Shorten it.")

class TokenUnknown(token: Int) :
    EdgecException("The token id $token is outside the model's vocabulary. Use the ids of this bundle's tokenizer.")

class OptionOutOfRange(name: String) : EdgecException("The option $name is out of range.")

class InputDoesNotFit(name: String, why: String) : EdgecException("The input $name does not fit: $why.")

class DownloadFailed(file: String, why: String) :
    EdgecException("$file could not be downloaded: $why. Try again later: what has arrived is kept.")

class DownloadRefused(why: String) :
    EdgecException("The download is not the bundle that was asked for: $why. Run `edgec split` again and publish all of it.")

class DownloadRunning(folder: File) : EdgecException("Another download fills $folder. Wait for it.")

class NotEnoughSpace(needed: Long, available: Long) :
    EdgecException("The download needs $needed bytes of the disk; $available are free. Free some, then try again.")

class StorageFailed(why: String) :
    EdgecException("The model cannot be stored: $why. Free some space, then try again: of a download what has arrived is kept.")

class ModelClosed : EdgecException("The model is closed. Load it again.")
