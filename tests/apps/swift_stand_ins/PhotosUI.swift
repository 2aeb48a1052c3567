// Stand-in: the picker of photos, for which PhotosUI and SwiftUI are imported together.
import Foundation
import SwiftUI

public struct PHPickerFilter: Sendable { public static let images = PHPickerFilter() }
/// Of CoreTransferable, which SwiftUI brings along.
public protocol Transferable {}
extension Data: Transferable {}
public struct PhotosPickerItem: Equatable, Hashable, Sendable {
    public func loadTransferable<T: Transferable>(type: T.Type) async throws -> T? { nil }
}
public struct PhotosPicker<Label: View>: View {
    public nonisolated init(
        selection: Binding<PhotosPickerItem?>, matching filter: PHPickerFilter? = nil, @ViewBuilder label: () -> Label
    ) {}
    public var body: Never { return fatalError() }
}
