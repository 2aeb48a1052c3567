// Texts as code points, as Python counts them, over UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/utf8.h"

namespace edgec::text {

using engine::append_character;
using engine::kMostCharacter;

// Whether a text is UTF-8: no half characters, none longer than it has to be.
bool is_utf8(std::string_view text);

// The code point at the beginning of a text that is UTF-8 and not empty, and how many bytes it has.
uint32_t first_character(std::string_view text, size_t& bytes);

// How many code points there are in a text, whatever its bytes are.
size_t count_characters(std::string_view text);

// The text without its first `count` code points.
std::string_view without_characters(std::string_view text, size_t count);

// White space as Python has it, with which the notations were tried.
bool is_space(uint32_t character);

std::string_view without_leading_space(std::string_view text);
std::string_view without_trailing_space(std::string_view text);
std::string_view stripped(std::string_view text);

bool begins_with(std::string_view text, std::string_view start);
bool ends_with(std::string_view text, std::string_view end);

// Shorten a text by a beginning that it may have; whether it had it.
bool take(std::string_view& text, std::string_view start);

// The length of the longest end of `text` with which `mark` begins, without being all of it.
size_t overlap(std::string_view text, std::string_view mark);

}  // namespace edgec::text
