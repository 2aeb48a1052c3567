import Foundation

/// What a file says that the system's decoder passes over: that it holds several images, or grey of 16 bits.
enum ImageHeader {
    private static let sequences: Set<String> = ["avis", "msf1", "hevc", "hevx"]

    /// Refuse an animated image, and one whose brightness would be guessed; anything else is left to the decoder.
    static func check(_ data: Data) throws {
        do {
            var file = FileBytes(data)
            let start = try file.read(12)
            let kind = FileBytes.text(start[..<4]), brand = FileBytes.text(start[8...])
            if kind == "GIF8" {
                try checkGif(&file, Int(start[10]))
            } else if kind == "\u{89}PNG" {
                try checkPng(&file, FileBytes.number(start[8...]))
            } else if kind == "RIFF", brand == "WEBP" {
                try checkWebp(&file)
            } else if kind == "II*\0" || kind == "MM\0*" {
                try checkTiff(data, littleEndian: kind == "II*\0")
            } else if FileBytes.text(start[4..<8]) == "ftyp", sequences.contains(brand) {
                throw animated("it is a sequence")
            }
        } catch is FileBytes.Ended {
            return
        }
    }

    private static func checkGif(_ file: inout FileBytes, _ flags: Int) throws {
        try file.skip(1 + colours(flags))
        var frames = 0
        while true {
            switch try file.byte() {
            case 0x21: try file.skip(1)
            case 0x2C:
                frames += 1
                if frames > 1 { throw animated("it has several frames") }
                try file.skip(8)
                try file.skip(1 + colours(try file.byte()))
            default: return
            }
            var size = try file.byte()
            while size > 0 {
                try file.skip(size)
                size = try file.byte()
            }
        }
    }

    /// Bytes of a table of colours.
    private static func colours(_ flags: Int) -> Int { flags & 0x80 == 0 ? 0 : 3 << ((flags & 7) + 1) }

    private static func checkPng(_ file: inout FileBytes, _ first: Int) throws {
        var size = first
        while true {
            switch FileBytes.text(try file.read(4)) {
            case "IHDR":
                let header = try file.read(13)
                if header[8] == 16, header[9] == 0 {
                    throw EdgecError.imageRefused(.unreadable, why: "it has grey of 16 bits")
                }
                size -= 13
            case "acTL":
                if FileBytes.number(try file.read(4)) > 1 { throw animated("it has several frames") }
                size -= 4
            case "IDAT", "IEND": return
            default: break
            }
            try file.skip(size + 4)
            size = FileBytes.number(try file.read(4))
        }
    }

    private static func checkWebp(_ file: inout FileBytes) throws {
        var frames = 0
        while true {
            if FileBytes.text(try file.read(4)) == "ANMF" { frames += 1 }
            if frames > 1 { throw animated("it has several frames") }
            let size = FileBytes.number(try file.read(4).reversed())
            try file.skip(size + size % 2)
        }
    }

    private static func checkTiff(_ data: Data, littleEndian: Bool) throws {
        func number(_ bytes: [UInt8]) -> Int { FileBytes.number(littleEndian ? bytes.reversed() : bytes) }
        var file = FileBytes(data)
        try file.skip(4)
        try file.skip(number(try file.read(4)) - 8)
        try file.skip(12 * number(try file.read(2)))
        if number(try file.read(4)) != 0 { throw animated("it has several pages") }
    }

    private static func animated(_ why: String) -> EdgecError { .imageRefused(.animated, why: why) }
}

/// The bytes of a file, one after the other.
struct FileBytes {
    struct Ended: Error {}

    private let data: Data
    private var place: Int

    init(_ data: Data) { (self.data, place) = (data, data.startIndex) }

    mutating func read(_ count: Int) throws -> [UInt8] {
        let start = place
        try skip(count)
        return Array(data[start..<place])
    }

    mutating func byte() throws -> Int {
        let start = place
        try skip(1)
        return Int(data[start])
    }

    mutating func skip(_ count: Int) throws {
        guard count >= 0, count <= data.endIndex - place else { throw Ended() }
        place += count
    }

    /// Each byte as the character with its number.
    static func text(_ bytes: some Sequence<UInt8>) -> String {
        var text = String.UnicodeScalarView()
        for byte in bytes { text.append(Unicode.Scalar(byte)) }
        return String(text)
    }

    /// The number that bytes are, the first of which weighs most.
    static func number(_ bytes: some Sequence<UInt8>) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }
}
