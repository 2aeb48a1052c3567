import Foundation

/// What is wrong with a sound that is to be transcribed.
public enum SoundFault: Sendable, Equatable { case unreadable, empty, tooLong, rateDiffers, notFinite }

/// What is wrong with an image.
public enum ImageFault: Sendable, Equatable { case unreadable, tooLarge, animated }

/// An error between an app and its model; every case says what to do in `recoverySuggestion`.
public enum EdgecError: LocalizedError, Equatable {
    case bundleMissing(String)
    case bundleAltered(file: String, why: String)
    /// `code` is that of `edgec verify --public-key` for the same: E130, E601 to E604.
    case signatureRefused(code: String, why: String)
    case bundleDoesNotFit([String])
    case systemTooOld(needed: String, found: String)
    case runtimeDiffers(String)
    case engineFailed(String)
    case adapterRefused(String)
    case schemaRefused(String)
    case notEnoughMemory(neededBytes: Int, availableBytes: Int)
    case tokenizerDiffers(labels: [String])
    case outputDiffers(String)
    /// What there is of an answer that was to be whole, and what ended it.
    case answerUnfinished(text: String, why: String)
    case promptEmpty
    case promptTooLong(tokens: Int, context: Int)
    case textEmpty
    case textTooLong(tokens: Int, most: Int)
    case promptUnknown(String)
    case tokenUnknown(Int)
    case optionOutOfRange(String)
    case inputDoesNotFit(name: String, why: String)
    case noChatTemplate
    case soundRefused(SoundFault, why: String)
    case languageUnknown(String)
    /// The model has no such task, or no timestamps.
    case transcriptionRefused(String)
    case imageRefused(ImageFault, why: String)
    /// The context does not hold so many images.
    case imagesTooMany(String)
    /// Images and their places in the text do not agree.
    case imagesMisplaced(String)
    case imageNeeded(String)
    /// More tokens see each other than one call of the model takes.
    case promptNotWhole(String)
    /// The model opened a call of a tool and did not write one; `text` is all of its message, with the markers.
    case malformedCall(text: String, why: String)
    case thinkingRefused(String)
    case toolChoiceRefused(String)
    case messageRefused(String)
    case downloadFailed(file: String, why: String)
    case downloadRefused(String)
    case downloadRunning(String)
    case notEnoughSpace(neededBytes: Int, availableBytes: Int)
    case storageFailed(String)

    public var errorDescription: String? {
        switch self {
        case .bundleMissing(let why): return "The model's files are missing: \(why)."
        case .bundleAltered(let file, let why): return "The file \(file) is not the one that was exported: \(why)."
        case .signatureRefused(let code, let why):
            return "The bundle is not what the holder of the app's key signed: \(why) [\(code)]."
        case .bundleDoesNotFit(let parts):
            return "The signed bundle does not fit this app, which was made for other \(parts.joined(separator: ", "))."
        case .systemTooOld(let needed, let found): return "The model needs iOS \(needed); this is \(found)."
        case .runtimeDiffers(let why): return "The runtime does not match the exported artifact: \(why)."
        case .engineFailed(let why): return "edgec's engine failed: \(why)."
        case .adapterRefused(let why): return "The adapter cannot be added: \(why)."
        case .schemaRefused(let why): return "The answer cannot be held to the schema: \(why)."
        case .notEnoughMemory(let needed, let available):
            return "The model needs about \(needed) bytes (estimated); the app may still use \(available) (measured)."
        case .tokenizerDiffers(let labels):
            return "The tokenizer gives ids that differ from those at export for: \(labels.joined(separator: ", "))."
        case .outputDiffers(let why): return "The model's outputs differ from those at export: \(why)."
        case .answerUnfinished(_, let why):
            return "The answer's tokens ran out before its JSON was whole: \(why)."
        case .promptEmpty: return "The prompt has no tokens."
        case .promptTooLong(let tokens, let context):
            return "The prompt has \(tokens) tokens; the context holds \(context)."
        case .textEmpty: return "The text has no tokens."
        case .textTooLong(let tokens, let most): return "The text has \(tokens) tokens; the model reads \(most)."
        case .promptUnknown(let name): return "The model has no prompt \(name)."
        case .tokenUnknown(let token): return "The token id \(token) is outside the model's vocabulary."
        case .optionOutOfRange(let name): return "The option \(name) is out of range."
        case .inputDoesNotFit(let name, let why): return "The input \(name) does not fit: \(why)."
        case .noChatTemplate: return "This model's tokenizer has no chat template."
        case .soundRefused(_, let why): return "The sound cannot be transcribed: \(why)."
        case .languageUnknown(let why): return "The language cannot be transcribed: \(why)."
        case .transcriptionRefused(let why): return "The transcription cannot be made: \(why)."
        case .imageRefused(.unreadable, let why): return "The image cannot be read: \(why)."
        case .imageRefused(.tooLarge, let why): return "The image is too large or too long: \(why)."
        case .imageRefused(.animated, let why): return "The image is animated: \(why)."
        case .imagesTooMany(let why): return "The context does not hold so many images: \(why)."
        case .imagesMisplaced(let why): return "The images and their places in the text do not agree: \(why)."
        case .imageNeeded(let why): return "This model answers about images only: \(why)."
        case .promptNotWhole(let why):
            return "The model reads a prompt with an image as a whole, and this one is too long: \(why)."
        case .malformedCall(_, let why): return "The model wrote a call that is none: \(why)."
        case .thinkingRefused(let why): return "The model's reasoning cannot be held to a budget: \(why)."
        case .toolChoiceRefused(let why): return "The model's calls cannot be held to this choice of tools: \(why)."
        case .messageRefused(let why): return "The model's chat template takes no such conversation: \(why)."
        case .downloadFailed(let file, let why): return "\(file) could not be downloaded: \(why)."
        case .downloadRefused(let why): return "The download is not the bundle that was asked for: \(why)."
        case .downloadRunning(let folder): return "Another download fills \(folder)."
        case .notEnoughSpace(let needed, let available):
            return "The download needs \(needed) bytes of the disk; \(available) are free."
        case .storageFailed(let why): return "The download cannot be stored: \(why)."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .bundleMissing, .bundleAltered: return "Run `edgec embed` again and rebuild the app."
        case .signatureRefused: return "Get the bundle again from whoever signs this app's bundles."
        case .bundleDoesNotFit: return "Update the app, or sign a bundle that was exported like the app's own."
        case .systemTooOld: return "Update the device, or export for an older system."
        case .runtimeDiffers: return "Use the runtime version that Package.swift names."
        case .engineFailed: return "Load the model again; if that fails too, report it with the device and the system."
        case .adapterRefused:
            return "Make one for this bundle with `edgec adapter`, or use one of `ModelFacts.adapters` by its name."
        case .schemaRefused:
            return "Use a bundle for edgec's engine that has the schema (`edgec export --schema`), and no stop texts."
        case .answerUnfinished: return "Allow more tokens, or shorten the prompt."
        case .notEnoughMemory: return "Free memory, add the increased-memory-limit entitlement, or use fewer bits."
        case .tokenizerDiffers: return "Update swift-transformers; accept single texts with LoadOptions.acceptedTexts."
        case .outputDiffers: return "Do not ship this combination of device and model; report it."
        case .promptEmpty, .promptTooLong: return "Change the prompt."
        case .textEmpty: return "Give a text."
        case .textTooLong: return "Split it, or embed it with truncate: true."
        case .promptUnknown: return "Name one of EncoderLimits.prompts; an empty name is none."
        case .tokenUnknown: return "Use the ids of this bundle's tokenizer."
        case .optionOutOfRange, .inputDoesNotFit: return "Correct the value."
        case .noChatTemplate: return "Use generate(prompt:) instead."
        case .soundRefused: return "Give samples at the model's rate (SpeechLimits), or a WAV file with it."
        case .languageUnknown: return "Leave the language out, or give another."
        case .transcriptionRefused: return "Change the options."
        case .imageRefused(.unreadable, _): return "Give an intact image in RGB, grey or CMYK."
        case .imageRefused(.tooLarge, _): return "Scale it down, or cut it."
        case .imageRefused(.animated, _): return "Save the frame that you mean as a file."
        case .imagesTooMany: return "Give fewer."
        case .imagesMisplaced: return "Write the placeholder once for each image, or not at all."
        case .imageNeeded: return "Give an image with the prompt."
        case .promptNotWhole: return "Shorten it."
        case .malformedCall: return "Allow more tokens where the text ran out; else ask again, or handle the error's text."
        case .thinkingRefused: return "Leave the budget out."
        case .toolChoiceRefused:
            return "Use .auto with parallel calls, or a package with tools for edgec's engine (`edgec embed --tools`)."
        case .messageRefused: return "Use other messages, or generate(messages:)."
        case .downloadFailed: return "Try again later: what has arrived is kept."
        case .downloadRefused: return "Run `edgec split` again and publish all of it."
        case .downloadRunning: return "Wait for it."
        case .notEnoughSpace, .storageFailed: return "Free some space, then try again: what has arrived is kept."
        }
    }
}
