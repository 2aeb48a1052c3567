
/// A text as code points: markers are compared by these, since a `Character` joins what stands beside a marker with it.
typealias Scalars = [Unicode.Scalar]

extension String {
    var scalars: Scalars { Array(unicodeScalars) }

    init(_ scalars: some Sequence<Unicode.Scalar>) {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        self.init(view)
    }
}

extension Unicode.Scalar {
    /// White space as Python has it, with which the notations were tried.
    var isPythonSpace: Bool {
        switch value {
        case 0x09...0x0D, 0x1C...0x20, 0x85, 0xA0, 0x1680, 0x2000...0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000: true
        default: false
        }
    }
}

extension Array where Element == Unicode.Scalar {
    var trimmedStart: Scalars { Scalars(drop { $0.isPythonSpace }) }
    var trimmedEnd: Scalars { Scalars(prefix((lastIndex { !$0.isPythonSpace } ?? -1) + 1)) }
    var trimmed: Scalars { trimmedStart.trimmedEnd }

    /// Where the first, or the last, occurrence of a text begins.
    func place(of text: Scalars, from start: Int = 0) -> Int? {
        guard count >= text.count + start else { return nil }
        return (start...(count - text.count)).first { self[$0...].starts(with: text) }
    }

    func lastPlace(of text: Scalars) -> Int? {
        guard count >= text.count else { return nil }
        return (0...(count - text.count)).last { self[$0...].starts(with: text) }
    }

    /// What stands before and after the first occurrence of a text; nil where there is none.
    func divided(at text: Scalars) -> (before: Scalars, after: Scalars)? {
        place(of: text).map { (Scalars(self[..<$0]), Scalars(self[($0 + text.count)...])) }
    }

    func ends(with text: Scalars) -> Bool { suffix(text.count).elementsEqual(text) }

    /// The text without a beginning or an end that it may have.
    func without(start: Scalars) -> Scalars { starts(with: start) ? Scalars(dropFirst(start.count)) : self }
    func without(end: Scalars) -> Scalars { ends(with: end) ? Scalars(dropLast(end.count)) : self }

    /// The length of the longest end of the text with which a marker begins.
    func overlap(_ mark: Scalars) -> Int {
        stride(from: Swift.min(mark.count - 1, count), to: 0, by: -1).first { ends(with: Scalars(mark.prefix($0))) } ?? 0
    }
}

/// Reads a text from its beginning on.
struct ScalarReader {
    let text: Scalars
    var place = 0

    init(_ text: Scalars) { self.text = text }

    var next: Unicode.Scalar? { place < text.count ? text[place] : nil }
    var rest: Scalars { Scalars(text[place...]) }

    func starts(with wanted: Scalars) -> Bool { text[place...].starts(with: wanted) }

    /// Move on behind a text that comes next; false where another one does.
    mutating func take(_ wanted: Scalars) -> Bool {
        if !starts(with: wanted) { return false }
        place += wanted.count
        return true
    }

    mutating func take(while fits: (Unicode.Scalar) -> Bool) -> Scalars {
        let taken = Scalars(text[place...].prefix(while: fits))
        place += taken.count
        return taken
    }
}
