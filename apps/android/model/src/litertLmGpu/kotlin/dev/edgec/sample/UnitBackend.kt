package dev.edgec.sample

import com.google.ai.edge.litertlm.Backend

/** Whether a new conversation needs an engine of its own. */
internal const val ENGINE_FOR_EACH_CONVERSATION = true

/** What the artifact was exported for. */
internal fun unitBackend(): Backend = Backend.GPU()
