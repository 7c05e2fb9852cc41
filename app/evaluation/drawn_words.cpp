#include "app/evaluation/drawn_words.hpp"

#include <array>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "app/evaluation/json_rows.hpp"
#include "app/evaluation/plain_text.hpp"

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
        if (code_points(line).find(U'\uFFFD') != std::u32string::npos)
          throw FileError(where + ": is no UTF-8");
        if (!seen.insert(line).second)
          throw FileError(fmt::format("{}: {} is there twice; expected every word once", where, line));
        read.words.push_back(line);
      }).bad;
  return read;
}

}  // namespace keyscope::evaluation
