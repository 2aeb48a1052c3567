package dev.edgec.sample

/** Finds added tokens in a text before the tokenizer's model sees it: the earliest, and the longest of those. */
internal class AddedTokens(tokens: List<AddedToken>, private val normalize: (String) -> String) {
    private val written = tokens.associate { it.id to if (it.normalized) normalize(it.content) else it.content }
    private val asTheyAre = TokenTrie(tokens.filter { !it.normalized }.associateBy { it.content })
    private val inNormalized = TokenTrie(tokens.filter { it.normalized }.associateBy { written.getValue(it.id) })

    /** The special tokens, which decoding leaves out. */
    val special = tokens.filter { it.special }.map { it.content }.toSet()

    fun text(id: Int): String? = written[id]

    /** Splits first at the tokens that match the text as it is; the rest is normalized and split at the others. */
    fun split(text: String): List<Piece> = split(Piece(text, true), asTheyAre).flatMap { piece ->
        if (piece.token != null) listOf(piece) else split(Piece(normalize(piece.text), piece.atStart), inNormalized)
    }

    private fun split(piece: Piece, trie: TokenTrie): List<Piece> {
        val text = piece.text
        val pieces = ArrayList<Piece>()
        fun rest(from: Int, to: Int) {
            if (from < to) pieces += Piece(text.substring(from, to), piece.atStart && from == 0)
        }
        var shown = 0
        for ((start, token) in trie.findAll(text)) {
            val end = start + trie.length(token)
            var from = start
            if (token.strips.left) while (from > shown && text[from - 1] in SPACES) from--
            rest(shown, from)
            pieces += Piece("", false, token.id)
            shown = end
            if (token.strips.right) while (shown < text.length && text[shown] in SPACES) shown++
        }
        rest(shown, text.length)
        return pieces
    }
}

/** A trie of added tokens by their characters. */
private class TokenTrie(private val tokens: Map<String, AddedToken>) {
    private class Node(val next: HashMap<Char, Node> = HashMap(), var token: AddedToken? = null)

    private val root = Node()
    private val lengths = tokens.entries.associate { (text, token) -> token.id to text.length }

    init {
        for ((text, token) in tokens) {
            if (text.isNotEmpty()) text.fold(root) { node, character -> node.next.getOrPut(character) { Node() } }.token = token
        }
    }

    fun length(token: AddedToken): Int = lengths.getValue(token.id)

    fun findAll(text: String): List<Pair<Int, AddedToken>> {
        val matches = ArrayList<Pair<Int, AddedToken>>()
        var at = 0
        while (at < text.length) {
            val token = longest(text, at)
            if (token != null) matches += at to token
            at += token?.let(::length) ?: 1
        }
        return matches
    }

    private fun longest(text: String, start: Int): AddedToken? {
        var node = root
        var longest: AddedToken? = null
        for (at in start until text.length) {
            node = node.next[text[at]] ?: break
            longest = node.token ?: longest
        }
        return longest
    }
}
