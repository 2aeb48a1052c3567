// Stand-in: the notifications of UIKit that the sample listens to. Re-exports as UIKit does.
@_exported import Foundation

@MainActor public class UIApplication {
    public nonisolated static let didReceiveMemoryWarningNotification = Notification.Name("didReceiveMemoryWarning")
    public nonisolated static let didEnterBackgroundNotification = Notification.Name("didEnterBackground")
}
