import Foundation

/// Dates in prompts, which stand as their formats between two marks until they are written on the day.
enum PromptDates {
    static func fill(_ text: String) -> String {
        guard text.unicodeScalars.contains("\u{E013}") else { return text }
        var filled = "", form = "", isForm = false
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\u{E013}": (form, isForm) = ("", true)
            case "\u{E014}":
                filled += written(form)
                isForm = false
            default:
                if isForm { form.unicodeScalars.append(scalar) } else { filled.unicodeScalars.append(scalar) }
            }
        }
        return filled
    }

    /// The time now in a format of C's strftime; an app's locale for C is English unless it sets another.
    private static func written(_ form: String) -> String {
        var now = time(nil), parts = tm(), bytes = [CChar](repeating: 0, count: 256)
        localtime_r(&now, &parts)
        let count = strftime(&bytes, bytes.count, form, &parts)
        return String(decoding: bytes[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
