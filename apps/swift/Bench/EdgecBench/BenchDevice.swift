import Foundation

/// The facts that the device reports about itself and about this process.
enum DeviceFacts {
    static func now() -> [String: Any] {
        [
            "system": "iOS \(ProcessInfo.processInfo.operatingSystemVersionString), \(thermalState())",
            "cpu": chip(),
            "cores": ProcessInfo.processInfo.processorCount,
            "memory_bytes": Int(ProcessInfo.processInfo.physicalMemory),
            "governor": NSNull(),
            "clock_mhz": NSNull(),
            "load_average": loadAverage() ?? NSNull(),
            "temperature_c": NSNull(),
            "executed_in": "app",
            "simulated": isSimulated,
        ]
    }

    /// A simulator executes the model on a Mac; its times say nothing about a phone.
    static var isSimulated: Bool {
        #if targetEnvironment(simulator)
        return true
        #else
        return false
        #endif
    }

    /// The model identifier, for example iPhone17,1.
    static func chip() -> String {
        var size = 0
        sysctlbyname("hw.machine", nil, &size, nil, 0)
        var name = [UInt8](repeating: 0, count: size)
        sysctlbyname("hw.machine", &name, &size, nil, 0)
        return String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)
    }

    static func residentBytes() -> Int { memory().map { Int($0.resident_size) } ?? 0 }

    static func peakResidentBytes() -> Int { memory().map { Int($0.resident_size_peak) } ?? 0 }

    private static func thermalState() -> String {
        switch ProcessInfo.processInfo.thermalState {
        case .nominal: return "thermal state nominal"
        case .fair: return "thermal state fair"
        case .serious: return "thermal state serious"
        case .critical: return "thermal state critical"
        @unknown default: return "thermal state unknown"
        }
    }

    private static func loadAverage() -> Any? {
        var average = [0.0]
        return getloadavg(&average, 1) == 1 ? average[0] : nil
    }

    /// The port of this process, requested only once, since every request adds a user of the port.
    private static let task = task_self_trap()

    private static func memory() -> task_vm_info_data_t? {
        var info = task_vm_info_data_t()
        let words = MemoryLayout<task_vm_info_data_t>.size / MemoryLayout<integer_t>.size
        var count = mach_msg_type_number_t(words)
        let status = withUnsafeMutablePointer(to: &info) { pointer in
            pointer.withMemoryRebound(to: integer_t.self, capacity: words) {
                task_info(task, task_flavor_t(TASK_VM_INFO), $0, &count)
            }
        }
        return status == KERN_SUCCESS ? info : nil
    }
}
