import Foundation

/// How an answer is generated; the defaults are greedy.
public struct GenerationOptions: Sendable {
    /// The most tokens of the answer; nil goes on to the end of the context.
    public var maxNewTokens: Int?
    /// 0 takes the likeliest token, else logits are divided by it; 1e-12 to 1e12.
    public var temperature: Float
    /// Keep the k likeliest tokens; 0 keeps all.
    public var topK: Int
    /// Keep the smallest set whose probability reaches p; 1 keeps all.
    public var topP: Float
    /// Drop tokens less likely than this share of the likeliest; 0 keeps all.
    public var minP: Float
    /// Makes tokens that came before less likely (arXiv:1909.05858); 1 turns it off.
    public var repetitionPenalty: Float
    /// Makes the draws reproducible; nil takes the system's random numbers.
    public var seed: UInt64?
    /// Texts that end the answer; they are not part of it.
    public var stop: [String]

    public init(
        maxNewTokens: Int? = 256, temperature: Float = 0, topK: Int = 0, topP: Float = 1, minP: Float = 0,
        repetitionPenalty: Float? = nil, seed: UInt64? = nil, stop: [String] = []
    ) {
        self.maxNewTokens = maxNewTokens
        self.temperature = temperature
        self.topK = topK
        self.topP = topP
        self.minP = minP
        self.repetitionPenalty = repetitionPenalty ?? TextFacts.repetitionPenalty
        self.seed = seed
        self.stop = stop
    }

    /// Beyond it, logits that are divided or multiplied become infinite or nothing.
    private static let withinFloat: ClosedRange<Float> = 1e-12...1e12

    func check() throws {
        let ranges: [(String, Bool)] = [
            ("maxNewTokens", (maxNewTokens ?? 1) > 0), ("temperature", temperature == 0 || Self.withinFloat.contains(temperature)),
            ("topK", topK >= 0), ("topP", topP > 0 && topP <= 1), ("minP", minP >= 0 && minP <= 1),
            ("repetitionPenalty", Self.withinFloat.contains(repetitionPenalty)),
            ("stop", !stop.contains("")),
        ]
        for (name, valid) in ranges where !valid { throw EdgecError.optionOutOfRange(name) }
    }
}

/// Random numbers that a seed determines (SplitMix64).
struct SeededNumbers: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// Chooses the next token from logits: repetition penalty, temperature, top-k, top-p, min-p, in that order.
struct Sampler {
    private let options: GenerationOptions
    private var numbers: any RandomNumberGenerator
    private var seen: Set<Int>

    init(_ options: GenerationOptions, after prompt: [Int]) {
        self.options = options
        numbers = options.seed.map { SeededNumbers(seed: $0) as any RandomNumberGenerator }
            ?? SystemRandomNumberGenerator()
        seen = options.repetitionPenalty == 1 ? [] : Set(prompt)
    }

    mutating func next(_ logits: [Float]) -> Int {
        var scores = logits
        penalise(&scores)
        let token = options.temperature == 0 ? Self.largest(scores) : draw(scores)
        if options.repetitionPenalty != 1 { seen.insert(token) }
        return token
    }

    private func penalise(_ scores: inout [Float]) {
        for token in seen where scores.indices.contains(token) {
            let score = scores[token]
            scores[token] = score < 0 ? score * options.repetitionPenalty : score / options.repetitionPenalty
        }
    }

    private static func largest(_ scores: [Float]) -> Int {
        var best = 0
        for index in scores.indices where scores[index] > scores[best] { best = index }
        return best
    }

    private mutating func draw(_ scores: [Float]) -> Int {
        let best = Self.largest(scores)
        let weights = scores.map { exp(Double($0 - scores[best]) / Double(options.temperature)) }
        let tokens = Self.candidates(weights, options)
        var rest = Self.unit(&numbers) * tokens.reduce(0.0) { $0 + weights[$1] }
        for token in tokens {
            rest -= weights[token]
            if rest < 0 { return token }
        }
        return best
    }

    private static func unit(_ numbers: inout any RandomNumberGenerator) -> Double {
        Double(numbers.next() >> 11) * 0x1p-53
    }
}

/// The choice of tokens that may be drawn. The likeliest one weighs 1; the vocabulary is never sorted as a whole.
extension Sampler {
    static func candidates(_ weights: [Double], _ options: GenerationOptions) -> [Int] {
        var tokens = Array(weights.indices)
        if options.topK > 0 { tokens = head(tokens, weights, options.topK) }
        if options.topP < 1 { tokens = nucleus(tokens, weights, Double(options.topP)) }
        return tokens.filter { weights[$0] >= Double(options.minP) }
    }

    /// The fewest tokens, likeliest first, that have `share` of the weight; more are examined only where needed.
    private static func nucleus(_ tokens: [Int], _ weights: [Double], _ share: Double) -> [Int] {
        let wanted = share * tokens.reduce(0.0) { $0 + weights[$1] }
        var count = 64
        while true {
            let first = head(tokens, weights, count)
            var sum = 0.0
            for (index, token) in first.enumerated() {
                sum += weights[token]
                if sum >= wanted { return Array(first.prefix(index + 1)) }
            }
            if count >= tokens.count { return first }
            count *= 4
        }
    }

    /// The `most` likeliest tokens in order; tokens that are not likelier than the last of those are skipped.
    private static func head(_ tokens: [Int], _ weights: [Double], _ most: Int) -> [Int] {
        let count = min(most, tokens.count)
        var kept: [Int] = []
        var least = -1.0
        for token in tokens where weights[token] > least {
            kept.append(token)
            if kept.count == 2 * count {
                kept = sorted(kept, weights, count)
                least = weights[kept[count - 1]]
            }
        }
        return sorted(kept, weights, count)
    }

    private static func sorted(_ tokens: [Int], _ weights: [Double], _ count: Int) -> [Int] {
        Array(tokens.sorted { weights[$0] > weights[$1] }.prefix(count))
    }
}
