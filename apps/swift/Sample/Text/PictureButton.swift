import SwiftUI

/// There is nothing to choose.
struct PictureButton: View {
    let chat: ChatModel

    var body: some View { EmptyView() }
}
