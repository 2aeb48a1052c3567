import Foundation

/// Calls of the engine's C interface that can fail.
enum EngineCall {
    /// A call that gives a handle, and fills a text where it fails.
    static func opened(_ open: (UnsafeMutablePointer<CChar>, Int) -> OpaquePointer?) throws -> OpaquePointer {
        var handle: OpaquePointer?
        try checked {
            handle = open($0, $1)
            return handle == nil ? 1 : 0
        }
        guard let handle else { throw EdgecError.engineFailed("it gave no handle") }
        return handle
    }

    /// A call that fills a text where it fails.
    static func checked(_ call: (UnsafeMutablePointer<CChar>, Int) -> Int32) throws {
        let (status, why) = told(call)
        if status != 0 { throw EdgecError.engineFailed(why) }
    }

    /// The status of a call, and the text that it filled.
    static func told(_ call: (UnsafeMutablePointer<CChar>, Int) -> Int32) -> (status: Int32, why: String) {
        var why = [CChar](repeating: 0, count: 512)
        let status = why.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.map { call($0, buffer.count) } ?? 1
        }
        let text = why.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return (status, String(decoding: text, as: UTF8.self))
    }
}
