// Stand-in: what Apple's Foundation brings along from Darwin, and Linux's has not. Imported into every file.
import Foundation

public func autoreleasepool<Result>(invoking body: () throws -> Result) rethrows -> Result { try body() }

public typealias integer_t = Int32
public typealias natural_t = UInt32
public typealias kern_return_t = Int32
public typealias mach_msg_type_number_t = natural_t
public typealias task_flavor_t = natural_t
public typealias mach_port_t = natural_t
public let KERN_SUCCESS: Int32 = 0
public let TASK_VM_INFO: Int32 = 22
/// A variable of C: before the SDKs of Xcode 16.3 it is not marked as safe, and mode 6 refuses it.
public var mach_task_self_: mach_port_t = 0
public func task_self_trap() -> mach_port_t { 0 }

public struct task_vm_info_data_t {
    public var virtual_size: UInt64 = 0
    public var region_count: integer_t = 0
    public var page_size: integer_t = 0
    public var resident_size: UInt64 = 0
    public var resident_size_peak: UInt64 = 0
    public init() {}
}

public func task_info(
    _ task: mach_port_t, _ flavor: task_flavor_t, _ info: UnsafeMutablePointer<integer_t>?,
    _ count: UnsafeMutablePointer<mach_msg_type_number_t>?
) -> kern_return_t { 1 }

/// Every name has the value "linux".
@discardableResult
public func sysctlbyname(
    _ name: UnsafePointer<CChar>!, _ old: UnsafeMutableRawPointer!, _ size: UnsafeMutablePointer<Int>!,
    _ new: UnsafeMutableRawPointer!, _ newSize: Int
) -> Int32 {
    let text = Array("linux".utf8CString)
    old?.copyMemory(from: text, byteCount: min(text.count, size.pointee))
    size.pointee = text.count
    return 0
}

extension URL {
    public static var documentsDirectory: URL { FileManager.default.temporaryDirectory }
    public func startAccessingSecurityScopedResource() -> Bool { false }
    public func stopAccessingSecurityScopedResource() {}
}

extension ProcessInfo {
    public enum ThermalState: Int { case nominal, fair, serious, critical }
    public var thermalState: ThermalState { .nominal }
    public static let thermalStateDidChangeNotification = Notification.Name("thermalStateDidChange")
}

/// SwiftPM writes this accessor for a target with resources.
extension Foundation.Bundle {
    public static var module: Foundation.Bundle { .main }
}
