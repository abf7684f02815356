/* conversation.h: the inside of a conversation (lapidary.h), for tests. */
#ifndef LAP_ENGINE_CONVERSATION_H
#define LAP_ENGINE_CONVERSATION_H

#include "text/transcript.h"

const lap_transcript *lap_conversation_transcript(const lap_conversation *conversation);

#endif
