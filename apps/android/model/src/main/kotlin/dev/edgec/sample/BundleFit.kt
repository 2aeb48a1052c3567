package dev.edgec.sample

/** What the app's code and its libraries were chosen for: another bundle than the package's must have the same. */
internal object BundleFit {
    private val facts = Facts.OF_MODEL.part("fit")

    /** sha256 of fields of the manifest, as its text has them; empty where there is none. */
    private val common = facts.table("interface")

    /** The operators that the app's runtime was asked to have. */
    private val operators = facts.texts("operators").toSet()

    private val systemPromptFile = facts.text("systemPromptFile")

    /** Refuse a bundle that does not fit, naming what differs. */
    fun check(manifest: String, files: Map<String, String>) {
        val found = fields(manifest)
        val differing = common.filter { (name, sha256) -> found[name]?.let { sum(it) }.orEmpty() != sha256 }.keys.toMutableList()
        if (!operators.containsAll(entries(found["runtime.operators"].orEmpty()))) differing += "runtime.operators"
        val own = ModelFacts.files.filter { isRead(it.path) }.associate { it.path to it.sha256 }
        val other = files.filterKeys(::isRead)
        differing += (own.keys + other.keys).filter { own[it] != other[it] }.sorted()
        val artifact = ModelFacts.ARTIFACT
        if (files.keys.none { it == artifact || it.startsWith("$artifact/") }) differing += artifact
        if (GOLDEN !in files) differing += GOLDEN
        if (differing.isNotEmpty()) throw BundleDoesNotFit(differing)
    }

    /** Files from which `edgec embed` made code. */
    private fun isRead(path: String) =
        path.startsWith("tokenizer/") || path == "generation_config.json" || path == systemPromptFile

    /** The fields of a manifest and those inside them, each as the lines of its canonical text. */
    private fun fields(manifest: String): Map<String, List<String>> {
        val all = fields(manifest.split('\n'), "  ")
        val inside = all.flatMap { (name, lines) -> fields(lines, "    ").map { "$name.${it.key}" to it.value } }
        return all + inside
    }

    private fun fields(lines: List<String>, indent: String): Map<String, List<String>> {
        val found = HashMap<String, MutableList<String>>()
        var name = ""
        for (line in lines) {
            var rest = line
            if (line.startsWith("$indent\"")) {
                name = line.trim().removePrefix("\"").substringBefore("\": ")
                rest = line.substringAfter("\": ", "")
                found[name] = ArrayList()
            } else if (!line.startsWith(indent)) {
                name = ""
            }
            // Where a state lies in the program's memory is the program's own affair.
            if (name.isNotEmpty() && !rest.trim().startsWith("\"offset\":")) found.getValue(name) += rest
        }
        return found
    }

    /** The texts of a list, as its lines have them. */
    private fun entries(list: List<String>) =
        list.map { it.trim() }.filter { it.startsWith("\"") }.map { it.removeSuffix(",").removeSurrounding("\"") }

    /** The sum of a field's text without the comma after it. */
    private fun sum(lines: List<String>): String {
        val text = lines.joinToString("\n").removeSuffix(",")
        return DownloadFolder.hex(DownloadFolder.sha256().apply { update(text.toByteArray()) })
    }

    private const val GOLDEN = "golden.json"
}
