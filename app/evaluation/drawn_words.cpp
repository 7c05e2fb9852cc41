#include "app/evaluation/drawn_words.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/evaluation/json_rows.hpp"
#include "app/evaluation/plain_text.hpp"
#include "base/text.hpp"

namespace keyscope::evaluation {
namespace {

// Neither list has a word that is part of another, so that one answer cannot be found inside another's.
// clang-format off
constexpr std::array kCities = std::to_array<std::string_view>({
    "Accra", "Amsterdam", "Ankara", "Athens", "Auckland", "Baghdad", "Bangkok", "Barcelona", "Beijing",
    "Belgrade", "Bogota", "Boston", "Brisbane", "Brussels", "Budapest", "Cairo", "Caracas", "Casablanca",
    "Chicago", "Copenhagen", "Dakar", "Damascus", "Delhi", "Denver", "Dublin", "Florence", "Geneva",
    "Glasgow", "Hamburg", "Hanoi", "Havana", "Helsinki", "Houston", "Istanbul", "Jakarta", "Kabul",
    "Karachi", "Kinshasa", "Lagos", "Lahore", "Lima", "Lisbon", "Madrid", "Manila", "Melbourne", "Memphis",
    "Milan", "Montreal", "Mumbai", "Nairobi", "Osaka", "Oslo", "Ottawa", "Prague", "Quito", "Santos",
    "Seattle", "Seoul", "Singapore", "Sydney", "Tehran", "Tokyo", "Toronto", "Zurich",
});
constexpr std::array kNames = std::to_array<std::string_view>({
    "Aaron", "Abigail", "Adrian", "Agatha", "Aisha", "Albert", "Alfredo", "Alicia", "Amara", "Amelia",
    "Amina", "Anders", "Anita", "Antonio", "Arjun", "Astrid", "Aurora", "Axel", "Barbara", "Beatriz",
    "Benjamin", "Bertha", "Bianca", "Bjorn", "Boyd", "Brandon", "Brenda", "Bridget", "Bruno", "Calvin",
    "Camila", "Carlos", "Carmen", "Cedric", "Celeste", "Chandra", "Chloe", "Clara", "Clifford", "Clyde",
    "Connor", "Cyrus", "Daisy", "Damian", "Daphne", "Deborah", "Declan", "Deepak", "Delia", "Dexter",
    "Diego", "Dmitri", "Dolores", "Dorothy", "Douglas", "Duncan", "Dylan", "Eduardo", "Edwin", "Eileen",
    "Elodie", "Elsa", "Emilio", "Enrique", "Erika", "Esther", "Ethan", "Eugene", "Fatima", "Felipe",
    "Fiona", "Floyd", "Gareth", "Gemma", "Gerald", "Gideon", "Gilbert", "Gloria", "Gregory", "Greta",
    "Guido", "Gustavo", "Hannah", "Harold", "Harriet", "Hassan", "Hazel", "Hector", "Heidi", "Hiroshi",
    "Howard", "Hubert", "Imogen", "Ingrid", "Isaac", "Isadora", "Ivana", "Jasmine", "Javier", "Jennifer",
    "Jerome", "Joaquin", "Jocelyn", "Jorge", "Joyce", "Judith", "Julio", "Kaito", "Karim", "Keiko",
    "Kelvin", "Kenji", "Kiran", "Klara", "Kristof", "Kurt", "Lakshmi", "Lamar", "Lars", "Leandro",
    "Leilani", "Lennart", "Leroy", "Lorenzo", "Lucia", "Luther", "Magnus", "Malik", "Marcus", "Margot",
    "Marisol", "Marlene", "Matteo", "Maureen", "Melissa", "Mercedes", "Meredith", "Miguel", "Mildred",
    "Milton", "Miriam", "Mohammed", "Monica", "Morgan", "Nadia", "Naomi", "Nathan", "Nigel", "Nkechi",
    "Noelle", "Norman", "Octavio", "Olivia", "Omar", "Oscar", "Otto", "Pablo", "Paloma", "Pamela",
    "Patricia", "Percy", "Phoebe", "Priya", "Quentin", "Rachel", "Rafael", "Ramona", "Rashid", "Rebecca",
    "Reginald", "Renata", "Ricardo", "Rosalind", "Roxanne", "Rupert", "Samira", "Santiago", "Selma",
    "Sheila", "Silvia", "Simone", "Soren", "Stanley", "Stefan", "Sunita", "Sven", "Sybil", "Tamara",
    "Tariq", "Theodore", "Thelma", "Tobias",
});
// clang-format on

std::u32string_view without_outer_space(std::u32string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_control(char32_t character) {
  return character < U' ' || (character >= U'\x7F' && character < U'\xA0');
}

// A line's word, which is to stand in a sentence.
std::string checked_word(const std::string& line, const std::string& where) {
  const std::u32string characters = code_points(line);
  if (characters.find(tokenizer::kReplacementCharacter) != characters.npos)
    throw FileError(where + ": is no UTF-8");
  const std::u32string_view word = without_outer_space(characters);
  if (word.empty()) throw FileError(where + ": is blank; expected a word");
  if (const auto control = std::ranges::find_if(word, is_control); control != word.end())
    throw FileError(fmt::format("{}: has the control character U+{:04X}; expected a word without", where,
                                static_cast<std::uint32_t>(*control)));
  std::string text;
  for (const char32_t character : word) tokenizer::append_utf8(text, character);
  return text;
}

}  // namespace

std::span<const std::string_view> city_names() { return kCities; }
std::span<const std::string_view> first_names() { return kNames; }

Words words_of(const std::string& path, std::span<const std::string_view> embedded, bool skip_bad) {
  if (path.empty()) return {{embedded.begin(), embedded.end()}, {}};
  Words read;
  std::set<std::string> seen;
  const std::filesystem::path file = path;
  read.bad_rows =
      read_lines({&file, 1}, skip_bad, [&](const std::string& line, const std::string& where) {
        std::string word = checked_word(line, where);
        if (!seen.insert(word).second)
          throw FileError(fmt::format("{}: {} is there twice; expected every word once", where, word));
        read.words.push_back(std::move(word));
        return true;
      }).bad;
  return read;
}

}  // namespace keyscope::evaluation
