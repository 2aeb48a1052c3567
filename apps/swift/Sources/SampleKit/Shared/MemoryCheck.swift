import Foundation
import os

/// Checks that the app may still use as much memory as the model needs.
enum MemoryCheck {
    /// Bytes that the system lets this app allocate before ending it; nil where it does not say (simulator, macOS).
    static func availableBytes() -> Int? {
        #if os(iOS) && !targetEnvironment(simulator)
        // 0 also stands for a process without a limit, such as an iPad app on a Mac.
        let bytes = Int(os_proc_available_memory())
        return bytes > 0 ? bytes : nil
        #else
        return nil
        #endif
    }

    static func run(_ neededBytes: Int) throws {
        guard let available = availableBytes(), available < neededBytes else { return }
        throw EdgecError.notEnoughMemory(neededBytes: neededBytes, availableBytes: available)
    }
}
