import SampleKitEngine
import Foundation

/// A compiled structure in edgec's engine, such as a schema of the bundle, closed with this object; texts that were begun
/// keep it.
final class EngineSchema {
    private let structure: OpaquePointer

    init(_ grammar: String, _ vocabulary: String) throws {
        structure = try EngineCall.opened { SampleKit_structure_open(grammar, vocabulary, $0, $1) }
    }

    deinit { SampleKit_structure_close(structure) }

    /// Begin a text of at most `budget` tokens.
    func begin(_ budget: Int) throws -> EngineText { try EngineText(structure, budget) }
}

/// A text of the engine that is held to a structure, closed with this object.
final class EngineText: ConstrainedText {
    private let text: OpaquePointer

    init(_ structure: OpaquePointer, _ budget: Int) throws {
        text = try EngineCall.opened { SampleKit_text_open(structure, Int64(budget), $0, $1) }
    }

    deinit { SampleKit_text_close(text) }

    func mask(_ logits: inout [Float]) throws {
        try logits.withUnsafeMutableBufferPointer { buffer in
            try EngineCall.checked { SampleKit_text_mask(text, buffer.baseAddress, buffer.count, $0, $1) }
        }
    }

    func take(_ token: Int) throws -> TextProgress {
        try EngineCall.checked { SampleKit_text_take(text, Int64(token), $0, $1) }
        return TextProgress(rawValue: SampleKit_text_state(text)) ?? .open
    }
}
