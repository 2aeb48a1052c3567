import Foundation
import UIKit

/// What acts on events of the system.
@MainActor
protocol SystemListener: AnyObject {
    func memoryIsLow()
    func enteredBackground()
    func thermalStateIs(_ state: ProcessInfo.ThermalState)
}

/// Tells the sample what the system says: memory, background, heat. For as long as the app runs.
@MainActor
enum SystemEvents {
    static func tell(_ model: any SystemListener) {
        on(UIApplication.didReceiveMemoryWarningNotification) { model.memoryIsLow() }
        on(UIApplication.didEnterBackgroundNotification) { model.enteredBackground() }
        on(ProcessInfo.thermalStateDidChangeNotification) { model.thermalStateIs(ProcessInfo.processInfo.thermalState) }
        model.thermalStateIs(ProcessInfo.processInfo.thermalState)
    }

    private static func on(_ name: Notification.Name, _ act: @escaping @MainActor @Sendable () -> Void) {
        _ = NotificationCenter.default.addObserver(forName: name, object: nil, queue: .main) { _ in
            MainActor.assumeIsolated { act() }
        }
    }
}
