// Stand-in: the kind of file that the sample of speech opens.
public struct UTType: Equatable, Hashable, Sendable { public static var wav: UTType { UTType() } }
