#!/bin/bash
# Pictures of the whole window for the eye: every view, dialog and error state of the tour, by real keys and mouse,
# on three screens and in both themes.
#   tools/window_pictures.sh FOLDER [KEYSCOPE]
# Leaves FOLDER/<size>-<theme>/*.png, and a contact sheet of each beside them. Exits with 1 where a tour failed,
# after all of them; needs Xvfb, xdotool and ImageMagick (`./run test` installs them).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -ge 1 ] || { sed -n 's/^#   /usage: /p' "$0"; exit 2; }
folder=$(realpath -m "$1") keyscope=$(realpath "${2:-build/release/keyscope}") status=0
model=assets/demo_model
for screen in "1280x800 1" "1920x1080 1" "3840x2160 2"; do
  read -r size scale <<<"$screen"
  for theme in dark light; do
    pictures=$folder/$size-$theme
    mkdir -p "$pictures"
    echo "$size, $theme"
    tests/app/window/window_tour.sh --size "$size" --theme "$theme" --scale "$scale" \
      "$keyscope" "$model" "$model/prompts/needle.txt" "$pictures" >"$pictures/tour.log" 2>&1 ||
      { status=1; tail -3 "$pictures/tour.log" | cut -c1-300; }
    montage -font DejaVu-Sans -label '%t' "$pictures"/*.png -tile 4x -geometry 640x+8+8 "$folder/$size-$theme.png"
  done
done
exit $status
