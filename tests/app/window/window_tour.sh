#!/bin/bash
# Uses the window as a person does, by real input events, and checks what it shows by its state file.
#   window_tour.sh [--size WIDTHxHEIGHT] [--theme dark|light] [--scale N] KEYSCOPE MODEL PROMPT [PICTURES]
# Exits with 77 (skipped) where Xvfb or xdotool is missing. PICTURES: a folder that keeps its screenshots, to
# which one of every view is added.
set -u

for tool in Xvfb xvfb-run xdotool; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
arguments=("$@") size=1280x800 theme=dark scale=1
while [[ ${1:-} == --* ]]; do
  case $1 in
    --size) size=$2 ;;
    --theme) theme=$2 ;;
    --scale) scale=$2 ;;
    *) echo "$0: there is no option $1"; exit 2 ;;
  esac
  shift 2
done
if [ "${KEYSCOPE_TOUR_INSIDE:-}" != 1 ]; then
  export KEYSCOPE_TOUR_INSIDE=1 LIBGL_ALWAYS_SOFTWARE=1
  # Twice as wide as the window, so that panels can be torn off.
  exec xvfb-run -a -s "-screen 0 $((2 * ${size%x*}))x${size#*x}x24 -noreset" "$0" "${arguments[@]}"
fi
other_theme=$([ "$theme" = dark ] && echo light || echo dark)

keyscope=$1 model=$2 prompt=$3 pictures=${4:-}
folder=$(mktemp -d)
export XDG_CONFIG_HOME=$folder/config
unset XDG_CURRENT_DESKTOP DBUS_SESSION_BUS_ADDRESS  # whose dialogs for files are not the window's
state=$folder/state.json
window_pid=
trap 'kill $window_pid 2>/dev/null; rm -rf "$folder"' EXIT
trap 'exit 1' TERM

# fail WHAT: ends the tour, from inside of $(...) too.
fail() {
  {
    echo "FAILED: $1"
    echo "state: $(cut -c1-1500 "$state" 2>/dev/null)"
    echo "stderr: $(cat "$folder/stderr" 2>/dev/null)"
  } >&2
  kill $$
  exit 1
}

# value NAME: a scalar of the state file.
value() { sed -n "s/,\"widgets\".*//; s/.*\"$1\":\"\{0,1\}\([^\",}]*\)\"\{0,1\}[,}]\{0,1\}.*/\1/p" "$state" 2>/dev/null; }

# expect NAME VALUE: waits until the state says so.
expect() {
  for _ in $(seq 600); do
    [ "$(value "$1")" = "$2" ] && return
    sleep 0.1
  done
  fail "$1 should be '$2', is '$(value "$1")' ($3)"
}

# expect_text REGEX WHAT: waits until the state file matches.
expect_text() {
  for _ in $(seq 600); do
    grep -q -- "$1" "$state" 2>/dev/null && return
    sleep 0.1
  done
  fail "$2"
}

# widget NAME: x y w h of a widget, as integers.
widget() { sed -n "s/.*\"$1\":\[\([-0-9.]*\),\([-0-9.]*\),\([-0-9.]*\),\([-0-9.]*\)\].*/\1 \2 \3 \4/p" "$state" | awk '{printf "%d %d %d %d\n", $1, $2, $3, $4}'; }

# at NAME SHARE_X SHARE_Y: a place inside a widget, once it is there and stays where it is: a panel that has
# just come may be laid out only some frames later.
at() {
  local box before=
  for _ in $(seq 300); do
    box=$(widget "$1")
    [ -n "$box" ] && [ "$box" = "$before" ] && break
    before=$box
    sleep 0.1
  done
  [ -n "$box" ] || fail "there is no widget '$1'"
  echo "$box" | awk -v sx="$2" -v sy="$3" '{printf "%d %d\n", $1 + sx * $3, $2 + sy * $4}'
}

# pause_live: pauses the live run, unless it was faster: its buttons go when it ends.
pause_live() {
  local box before=
  while [ "$(value live)" = running ]; do
    box=$(widget pause)
    if [ -n "$box" ] && [ "$box" = "$before" ]; then
      click $(echo "$box" | awk '{printf "%d %d\n", $1 + $3 / 2, $2 + $4 / 2}')
      return
    fi
    before=$box
    sleep 0.1
  done
}

# Every press lasts longer than two frames.
move() { xdotool mousemove "$1" "$2"; sleep 0.25; }
press() { xdotool mousedown "$1"; sleep 0.2; xdotool mouseup "$1"; sleep 0.2; }
click() { move "$1" "$2"; press 1; }
key() { xdotool keydown "$1"; sleep 0.15; xdotool keyup "$1"; sleep 0.15; }

limits() { sed -n 's/.*"limits":\[\([^]]*\)\].*/\1/p' "$state"; }

# zoom_in: one notch of the wheel, until it is seen.
zoom_in() {
  local before
  before=$(limits)
  xdotool click 4
  for _ in $(seq 100); do
    sleep 0.1
    [ "$(limits)" != "$before" ] && return
  done
  fail "the wheel did not move the view from $before"
}

# drag X Y X Y: from one place to another, in steps.
drag() {
  move "$1" "$2"; xdotool mousedown 1; sleep 0.3
  for step in 1 2 3 4 5 6; do xdotool mousemove $(($1 + ($3 - $1) * step / 6)) $(($2 + ($4 - $2) * step / 6)); sleep 0.1; done
  sleep 0.4; xdotool mouseup 1; sleep 0.6
}

# palette TEXT: does the first action that the palette finds by it.
palette() {
  xdotool keydown ctrl; key p; xdotool keyup ctrl; sleep 0.3
  xdotool type --delay 60 "$1"; sleep 0.3
  key Return
}

open_window() {
  rm -f "$state"
  "$keyscope" view --state-file "$state" --theme "$theme" --size "$size" --scale "$scale" "$@" 2>"$folder/stderr" &
  window_pid=$!
  for _ in $(seq 600); do
    [ -s "$state" ] && break
    kill -0 $window_pid 2>/dev/null || fail "the window did not open: $*"
    sleep 0.1
  done
}

# close_window: with Ctrl+Q; the exit status must be 0.
close_window() {
  xdotool keydown ctrl; key q; xdotool keyup ctrl
  for _ in $(seq 300); do
    kill -0 $window_pid 2>/dev/null || break
    sleep 0.1
  done
  kill -0 $window_pid 2>/dev/null && fail "the window did not close ($1)"
  wait $window_pid || fail "exit status $? ($1)"
}

# picture_part: of the screen: where something was torn off all of it.
picture_part() {
  [ "$(value n_windows)" = 1 ] && echo "${size}+0+0" || echo "$((2 * ${size%x*}))x${size#*x}+0+0"
}

# picture NAME: what the screen shows; it must not be one flat colour.
picture() {
  command -v import >/dev/null || return 0
  import -window root -crop "$(picture_part)" +repage "$folder/$1.png" || fail "no picture of $1"
  local colours
  colours=$(identify -format %k "$folder/$1.png")
  [ "$colours" -gt 50 ] || fail "the picture $1 has only $colours colours"
  [ -z "$pictures" ] || cp "$folder/$1.png" "$pictures/"
}

echo "== a recording is opened"
"$keyscope" capture --quiet --model "$model" --prompt-file "$prompt" --max-tokens 400 --policy none \
  --policy keydiff --policy sink --budget 128 --block 64 --generate 4 --out "$folder/tour.h5" 2>"$folder/stderr" ||
  fail "no recording to look at"
open_window "$folder/tour.h5"
expect loaded true "opened"
expect run keydiff "an evicting run comes first"
expect block 6 "the end of the prompt"
expect reading false "keys were read"
picture opened

echo "== a head is clicked"
read -r n_layers n_heads <<<"$(value n_layers) $(value n_kv_heads)"
click $(at heads "$(echo "1.5 $n_heads" | awk '{print $1 / $2}')" "$(echo "2.5 $n_layers" | awk '{print $1 / $2}')")
expect layer 2 "the clicked layer"
expect kv_head 1 "the clicked head"
expect reading false "the head was read"
picture head

echo "== the slider is dragged"
move $(at slider 0.95 0.5)
xdotool mousedown 1; sleep 0.2
move $(at slider 0.5 0.5)
move $(at slider 0.0 0.5)
xdotool mouseup 1; sleep 0.2
expect block 0 "the slider's left end"
expect_text '"retained":64' "64 keys were seen by the first block"
key Right; expect block 1 "the next block"
key End; expect_text '"block":\(8\|9\)' "the last block"
key Home; expect block 0 "the first block"
key Right; key Right; key Right
expect block 3 "three steps"
picture slider

echo "== the policy is switched without losing the view"
move $(at plot 0.4 0.4)
zoom_in; zoom_in; sleep 0.3
seen=$(limits)
click $(at run_2 0.5 0.5)
expect run sink "the third run"
expect block 3 "the block stays"
expect reading false "the run was read"
now=$(limits)
[ "$seen" = "$now" ] || fail "the view moved from $seen to $now"
key 2; expect run keydiff "the key 2"
picture policy

echo "== panned, fitted"
before=$(limits)
move $(at plot 0.5 0.5); xdotool mousedown 1; sleep 0.2
move $(at plot 0.6 0.6); xdotool mouseup 1; sleep 0.3
now=$(limits)
[ "$before" != "$now" ] || fail "dragging did not pan"
key f; sleep 0.3

echo "== a token is hovered and held"
point=$(sed -n 's/.*"last_point":{[^}]*"retained":\[\([^]]*\)\].*/\1/p' "$state")
token=$(echo "$point" | cut -d, -f3)
move $(echo "$point" | awk -F, '{printf "%d %d\n", $1 + 0.5, $2 + 0.5}')
expect_text '"hovered":[0-9]' "a token is hovered"
expect_text '"tooltip":\[' "its tooltip is shown"
inside=$(echo "$(widget tooltip) $(widget plot)" | awk '{print ($1 >= $5 - 1 && $2 >= $6 - 1 && $1 + $3 <= $5 + $7 + 1 && $2 + $4 <= $6 + $8 + 1)}')
[ "$inside" = 1 ] || fail "the tooltip ($(widget tooltip)) leaves the plot ($(widget plot))"
picture hovered
press 1
expect_text '"locked":[0-9]' "the token is held"
move $(at plot 0.01 0.01)
expect hovered null "nothing is hovered any more"
key Escape
expect locked null "Esc releases"

echo "== the key space: selected in a box, seen against the anchor and in 3D"
move $(at plot 0.2 0.2); xdotool mousedown 3; sleep 0.2
move $(at plot 0.8 0.8); xdotool mouseup 3; sleep 0.3
expect_text '"n_selected":[1-9]' "right-drag selects"
picture selected
xdotool keydown ctrl; key z; xdotool keyup ctrl
expect n_selected 0 "Ctrl+Z takes the selection back"
xdotool keydown shift; move $(at plot 0.1 0.1); xdotool mousedown 3; sleep 0.2
for corner in "0.9 0.1" "0.9 0.9" "0.1 0.9"; do move $(at plot $corner); done
xdotool mouseup 3; sleep 0.2; xdotool keyup shift
expect_text '"n_selected":[1-9]' "an outline selects"
key Escape; expect n_selected 0 "Esc drops what is selected"
click $(at projection 0.5 0.5); sleep 0.3
click $(at projection_anchor 0.3 0.5)
expect projection anchor "against the anchor"
key q; expect queries_shown true "Q shows queries"
expect drawing false "they were read"
expect_text '"queries":[1-9]' "they are points"
picture anchor
key q; expect queries_shown false "and hides them"
click $(at projection 0.5 0.5); sleep 0.3
click $(at projection_pca3d 0.3 0.5)
expect projection pca3d "in space"
orbit=$(sed -n 's/.*"orbit":\[\([^]]*\)\].*/\1/p' "$state")
move $(at plot 0.5 0.5); xdotool mousedown 1; sleep 0.2
move $(at plot 0.7 0.6); xdotool mouseup 1; sleep 0.3
[ "$orbit" != "$(sed -n 's/.*"orbit":\[\([^]]*\)\].*/\1/p' "$state")" ] || fail "dragging did not turn space"
click $(at colour 0.5 0.5); sleep 0.3
click $(at colour_position 0.3 0.5)
expect colour position "by position"
picture space
click $(at colour 0.5 0.5); sleep 0.3
click $(at colour_decision 0.3 0.5); expect colour decision "by decision again"
click $(at projection 0.5 0.5); sleep 0.3
click $(at projection_pca 0.3 0.5); expect projection pca "and in the plane"

echo "== runs side by side: by key, by their button, linked, taken away"
xdotool keydown shift; key 1; xdotool keyup shift
expect n_plots 2 "Shift+1 puts the first run beside"
move $(at run_2 0.5 0.5); click $(at beside_2 0.5 0.5)
expect n_plots 3 "so does its button"
expect run keydiff "which selects nothing"
expect reading false "all were read"
seen=$(limits)
move $(at tile_0_0 0.6 0.6); xdotool mousedown 1; sleep 0.2
move $(at tile_0_0 0.8 0.8); xdotool mouseup 1; sleep 0.3
[ "$seen" != "$(limits)" ] || fail "dragging in one tile did not move all"
click $(at tile_0_2 0.1 0.02); expect run sink "a click on a tile's title selects its run"
expect n_plots 3 "and the same runs stay in sight"
picture beside
click $(at view_cosine-matrix 0.5 0.5)
expect n_tiles 3 "so do their matrices"
expect busy false "all were made"
picture beside_cosines
click $(at view_keyspace 0.5 0.5)
click $(at away_0_0 0.5 0.5); expect n_plots 2 "the cross takes a tile away"
click $(at run_1 0.5 0.5); expect run keydiff "and back"
xdotool keydown shift; key 3; xdotool keyup shift
expect n_plots 1 "Shift+3 takes the last one away"
key f; sleep 0.3

echo "== other views of the same head"
click $(at view_cosine-matrix 0.5 0.5)
expect shown cosine-matrix "the tab was clicked"
expect figure cosine-matrix "the figure is made"
move $(at plot 0.3 0.7)
expect_text '"hovered":[0-9]' "a cell's column is a token"
picture cosines
click $(at setting_order 0.5 0.5); sleep 0.3
click $(at setting_order_dendrogram 0.3 0.5)
expect_text '"tokens":\[[0-9]' "similar keys side by side"
move $(at plot 0.3 0.3)
expect_text '"hovered":[0-9]' "a column is still a token"
picture ordered
move $(at plot 0.5 0.5); for _ in $(seq 14); do xdotool click 4; sleep 0.1; done; sleep 0.3
picture ordered_close
click $(at setting_order 0.5 0.5); sleep 0.3
click $(at setting_order_position 0.3 0.5)
click $(at view_attention 0.5 0.5)
expect figure attention "the attention matrix"
move $(at plot 0.3 0.7); xdotool click 4; sleep 0.3
picture attention
key Up; expect layer 1 "another layer's attention"
key Down; expect layer 2 "and back"
click $(at view_score-attention 0.5 0.5)
expect figure score-attention "score against attention"
move $(at plot 0.1 0.1); xdotool mousedown 3; sleep 0.2
move $(at plot 0.7 0.7); xdotool mouseup 3; sleep 0.3
expect_text '"n_selected":[1-9]' "a box selects tokens here as well"
picture correlation_selected
key Escape; expect n_selected 0 "Esc drops them"
click $(at views 0.5 0.5); sleep 0.4
picture views
click $(at menu_log-volume 0.4 0.5)
expect figure log-volume "a figure without a tab"
click $(at views 0.5 0.5); sleep 0.4
click $(at menu_log-volume 0.4 0.5)
expect shown token-lives "which is closed where it was opened"
picture log_volume

echo "== runs compared, and a token's story"
click $(at view_token-lives 0.5 0.5)
expect figure token-lives "who is in the cache at each block"
move $(at plot 0.8 0.02); expect_text '"hovered":[0-9]' "a row is a token"
picture token-lives
expect map "of none" "ρ speaks of the model, so that it is the full cache's"
palette "measure log volume"; expect measure log_volume_nats "a measure of what is retained"
click $(at reference 0.5 0.5); sleep 0.3
click $(at reference_2 0.5 0.5)
expect map "keydiff − sink" "the difference of two runs"
expect n_on_map $((n_layers * n_heads)) "both runs are measured"
picture difference
palette "measure spearman"; expect measure spearman "and back"
expect map "of none" "without a difference"
move $(at evictions 0.5 0.5); sleep 0.2
click $(at view_keyspace 0.5 0.5)
token=$(sed -n 's/.*"last_point":{[^}]*"retained":\[\([^]]*\)\].*/\1/p' "$state")
click $(echo "$token" | awk -F, '{printf "%d %d\n", $1 + 0.5, $2 + 0.5}')
expect story "$(echo "$token" | cut -d, -f3)" "the held token's story"
click $(at story_scores 0.1 0.5)
picture story
key Escape; expect locked null "Esc releases it"

echo "== lives by loss and in every head, a filter, neighbours, a page, an animation"
click $(at view_token-lives 0.5 0.5); expect figure token-lives "lives"
click $(at setting_order 0.5 0.5); sleep 0.3
click $(at setting_order_loss 0.4 0.5); sleep 0.8
picture lives_by_loss
click $(at view_keyspace 0.5 0.5)
click $(echo "$token" | awk -F, '{printf "%d %d\n", $1 + 0.5, $2 + 0.5}')
expect_text '"locked":[0-9]' "a token is held"
click $(at view_token-lives 0.5 0.5); sleep 0.3
click $(at setting_in_heads 0.2 0.5); sleep 0.8
picture lives_in_heads
key n; expect n_selected 21 "the held token and its neighbours"
picture neighbours
key Escape; expect n_selected 0 "and released"
click $(at tab_filter 0.5 0.5); sleep 0.3
drag $(at filter_position 0.2 0.5) $(at filter_position 0.6 0.5)
expect_text '"n_selected":[1-9]' "a part of the histogram selects its tokens"
picture filter
key Escape; expect n_selected 0 "Esc lets them go"
click $(at tab_timeline 0.5 0.5)
click $(at view_keyspace 0.5 0.5); expect shown keyspace "the key space"
for file in page.html blocks.apng; do
  xdotool keydown ctrl; key e; xdotool keyup ctrl; expect dialog 2 "the export"
  key ctrl+a; xdotool type --delay 60 "$folder/$file"; key Return
  expect dialog 0 "it is asked for"
  for _ in $(seq 300); do [ -s "$folder/$file" ] && break; sleep 0.1; done
  [ -s "$folder/$file" ] || fail "$file was not written: $(value notice)"
done
grep -q "</html>" "$folder/page.html" || fail "the page is no page"
grep -q "acTL" "$folder/blocks.apng" || fail "the animation does not move"

echo "== the text: found by Ctrl+F, held, shaded"
xdotool keydown ctrl; key f; xdotool keyup ctrl
expect shown text "Ctrl+F shows the text"
xdotool type --delay 120 "THE"
expect_text '"n_found":[1-9]' "the word is found"
key Return
expect_text '"match":0' "the first match"
expect_text '"locked":[0-9]' "it is held"
picture text
key Escape; sleep 0.2; key Escape
expect locked null "Esc releases it"
move $(at plot 0.1 0.03); expect_text '"hovered":[0-9]' "a word is pointed at"
click $(at view_keyspace 0.5 0.5)
expect shown keyspace "and back"

echo "== a kind of point is hidden, the measure and the theme are changed"
click $(at legend_evicted 0.5 0.5)
expect_text '"hidden":\["evicted"\]' "evicted keys are hidden"
key m; expect measure spearman_given_position "the next measure"
xdotool keydown ctrl; key t; xdotool keyup ctrl
expect theme "$other_theme" "the other theme"
picture other_theme
xdotool keydown ctrl; key t; xdotool keyup ctrl
expect theme "$theme" "and back"
echo "== help is shown"
click $(at help 0.5 0.5); expect dialog 4 "the list of keys"
picture help
key Escape; expect dialog 0 "Esc closes it"
xdotool keydown ctrl; key e; xdotool keyup ctrl; expect dialog 2 "the export"
expect_text '"export_preview":' "the page is shown"
picture export
key ctrl+a; xdotool type --delay 60 "$folder/shown.png"; key Return
expect notice "written: $folder/shown.png" "it is written"; expect dialog 0 "and the dialog closes"
xdotool keydown ctrl; key e; xdotool keyup ctrl; expect dialog 2 "the export again"
key Escape; expect dialog 0 "Esc closes it too"; expect shown keyspace "the view is the one before"

echo "== what another budget would keep"
click $(at tab_budget 0.5 0.5); click $(at budget_slider 0.4 0.5)
expect run what-if "a run of its own"
expect_text '"drawing":false' "which is drawn"
picture budget
key 2; expect run keydiff "the file's are still there"; click $(at tab_timeline 0.5 0.5)

echo "== everything can be found in the palette"
xdotool keydown ctrl; key p; xdotool keyup ctrl; expect dialog 5 "the palette"
xdotool type --delay 120 "layer 2 h 0"
expect_text '"palette_at":"Layer 2, KV head 0"' "numbers are understood"
picture palette
key Return; expect dialog 0 "Enter closes it"; expect layer 2 "and selects the layer"; expect kv_head 0 "and the head"
xdotool keydown ctrl; key p; xdotool keyup ctrl; expect dialog 5 "the palette again"
xdotool type --delay 120 "export"
expect palette_at "Export this view" "the best comes first"
key Return; expect dialog 2 "an entry may open a dialog"
key Escape; expect dialog 0 "which Esc closes"

xdotool keydown ctrl; xdotool keydown shift; key c; xdotool keyup shift; xdotool keyup ctrl
expect_text '"notice":"Copied: keyscope view .*tour.h5 --fresh --run keydiff --layer 2 --kv-head 0' "the command is copied and said"

echo "== panels and views are docked, torn off, laid out"
click $(at layout 0.5 0.5); sleep 0.4
picture layouts
click $(at layout_Compare 0.3 0.5)
expect layout Compare "a named layout"
expect n_visible 3 "key space, text and difference are seen side by side"
expect_text '"text":\[\|"n_plots":1' "both are drawn"
picture compare
click $(at layout 0.5 0.5); sleep 0.4
click $(at layout_name 0.3 0.5); xdotool type --delay 60 "mine"; sleep 0.3
click $(at layout_keep 0.5 0.5)
expect_text '"notice":"The layout is kept' "the layout has a name"
click $(at layout 0.5 0.5); sleep 0.4
click $(at layout_Present 0.3 0.5)
expect layout Present "another one"
picture present
click $(at layout 0.5 0.5); sleep 0.4
click $(at layout_mine 0.3 0.5)
expect layout Compare "the kept one"; expect n_visible 3 "as it was kept"
click $(at layout 0.5 0.5); sleep 0.4
click $(at layout_Live 0.3 0.5); expect layout Live "for live runs"
picture live_layout
click $(at layout 0.5 0.5); sleep 0.4
click $(at layout_Explore 0.3 0.5); expect layout Explore "and back"
expect n_visible 1 "tabs cover each other"
drag $(at view_text 0.5 0.5) $((${size%x*} + 300)) 200
expect n_windows 2 "the text was torn off"
expect n_visible 2 "and is seen beside the key space"
picture torn_off
move $(at plot 0.1 0.03); expect_text '"hovered":[0-9]' "its words are pointed at there"
key Home; expect block 0 "keys work there as well"
drag $(at find 0.1 -0.8) $(at view_keyspace 0.4 0.5)  # by its title
expect n_windows 1 "and is a tab again"
key 2; click $(at view_keyspace 0.5 0.5); expect shown keyspace "the key space"

"$keyscope" export --quiet "$folder/tour.h5" --figure keyspace --figure cosine-matrix --kv-head 0 \
  --out "$folder/figures.h5" 2>"$folder/stderr" || fail "no figures to look at"

if [ -n "$pictures" ]; then
  echo "== every view, one picture each"
  mkdir -p "$pictures"
  names=$("$keyscope" figure --help | tr '\n' ' ' | sed -n 's/.*Which figure: \([a-z0-9, ()-]*\).*/\1/p' | sed 's/([^)]*)//g' | tr -d ',')
  [ -n "$names" ] || fail "figure --help names no figures"
  for name in text $names; do
    "$keyscope" view "$folder/tour.h5" --run keydiff --layer 1 --view "$name" --token 40 --theme "$theme" --size "$size" \
      --scale "$scale" --screenshot "$pictures/view_$name.png" --force 2>"$pictures/view_$name.txt" &&
      rm "$pictures/view_$name.txt"
  done
fi

echo "== the file vanishes"
rm "$folder/tour.h5"
key Down; expect layer 3 "another layer of a file that is gone"
sleep 0.5
kill -0 $window_pid || fail "the window died with its file"
picture vanished
close_window "on a recording"

echo "== a corrupt and a missing recording"
head -c 3000 /dev/urandom >"$folder/corrupt.h5"
open_window "$folder/corrupt.h5"
expect_text '"open_error":"[^"]*corrupt.h5' "the file is named"
picture corrupt
close_window "on a corrupt file"
open_window "$folder/missing.h5"
expect_text '"open_error":"[^"]*missing.h5' "the missing file is named"
picture missing
close_window "on a missing file"

echo "== a figure file"
open_window "$folder/figures.h5"
expect n_figures 8 "two figures of four layers"
expect figure keyspace "the file's default"
key End; expect figure cosine-matrix "the last one, as they were written"
picture figure
click $(at figure_0 0.5 0.5); expect figure keyspace "the clicked one"
key End; key Up; key Home; expect figure keyspace "end and home"
close_window "on a figure file"

echo "== a model that fails to load"
mkdir "$folder/no_model"
open_window --model "$folder/no_model" --prompt hello
expect live failed "the folder holds no model"
picture no_model
close_window "on a model that is not there"

echo "== a new user: the demo, its strongest head, what KeyDiff evicts there and SnapKV keeps"
open_window
click $(at empty_demo 0.5 0.5)
expect live done "four policies have read the text"
expect busy false "all heads are measured"
expect n_on_map $((n_layers * n_heads)) "and shown"
expect map "" "by the full cache"
picture demo
click $(at heads 0.875 0.4); expect layer 1 "the darkest cell's layer"; expect kv_head 3 "and head"
key 2; expect run keydiff "what KeyDiff keeps at a quarter"
click $(at view_difference 0.5 0.5); expect shown difference "beside another policy"
click $(at other_run 0.5 0.5); sleep 0.3
click $(at other_run_2 0.5 0.5)
expect_text '"only_b":[1-9]' "which is SnapKV"
expect busy false "compared"
picture demo_difference
close_window "on the demo"

echo "== live: all policies together, step by step, up to a token"
open_window --model "$model" --prompt-file "$prompt" --policy none --policy keydiff --budget 64 --block 8 --paused
expect live paused "it waits before the first block"
expect loaded true "the plan is there"
click $(at step 0.5 0.5); expect blocks_done 1 "a block of the selected run"
click $(at stop 0.5 0.5); xdotool type --delay 60 "40"; key Return
click $(at pause 0.5 0.5)
expect live paused "it stops"
expect blocks_done 6 "once the token was read"
picture together
close_window "while paused"

echo "== live: cancelled at every stage"
open_window --model "$model" --prompt-file "$prompt" --policy keydiff --budget 64 --block 2
expect_text '"live":"\(starting\|running\|done\)"' "it starts"
palette "cancel the model"; picture cancelled_early
expect_text '"live":"\(cancelled\|done\)"' "cancelled while it starts, or was faster"
close_window "after it was cancelled"
open_window --model "$model" --prompt-file "$prompt" --policy keydiff --budget 64 --block 2
expect loaded true "the first block arrived"
pause_live
expect_text '"live":"\(paused\|done\)"' "it pauses, or was faster"
palette "cancel the model"
expect_text '"live":"\(cancelled\|done\)"' "cancelled while it is paused"
picture cancelled_paused
close_window "after it was cancelled"

echo "== live: paused, stepped, closed while running"
open_window --model "$model" --prompt-file "$prompt" --policy keydiff --budget 64 --block 2 --out "$folder/live.h5"
expect loaded true "the first block arrived"
expect_text '"live":"\(running\|done\)"' "it runs"
pause_live
expect_text '"live":"\(paused\|done\)"' "it pauses, or was faster"
if [ "$(value live)" = paused ]; then
  sleep 0.5
  before=$(value blocks_done)
  click $(at step 0.5 0.5)
  expect_text "\"blocks_done\":$((before + 1))," "one block more than $before"
  picture live
  click $(at pause 0.5 0.5)
  expect_text '"live":"\(running\|done\)"' "it goes on"
fi
close_window "while running"
[ -s "$folder/live.h5" ] || fail "what was recorded is gone: $(ls "$folder")"
"$keyscope" inspect "$folder/live.h5" >/dev/null 2>"$folder/stderr" || fail "the recording cannot be read"

echo "== it opens as it was left, from the list of recent files"
open_window "$folder/live.h5"
expect loaded true "the recording of the live run"
key Down; expect layer 1 "another layer"
key m; expect measure spearman_given_position "another measure"
click $(at view_text 0.5 0.5); expect shown text "another view"
click $(at layout 0.5 0.5); sleep 0.4
click $(at layout_Compare 0.3 0.5); expect n_visible 3 "another layout"
click $(at view_text 0.5 0.5); expect shown text "the same view"
close_window "on the recording"
open_window "$folder/live.h5"
expect loaded true "the recording, in windows of every size"
window=$(xdotool search --pid $window_pid | tail -1)
for small in "520 400" "700 300" "400 700" "900 420" "${size%x*} ${size#*x}"; do
  # shellcheck disable=SC2086
  xdotool windowsize "$window" $small; sleep 0.7
  kill -0 $window_pid 2>/dev/null || fail "it ended at $small"
done
close_window "at its own size again"
open_window
expect_text '"recent_0":' "recent files are listed"
picture recent
click $(at recent_0 0.2 0.5)
expect loaded true "the last one was opened"
expect layer 1 "its layer"; expect shown text "its view"; expect layout Compare "its layout"; expect measure spearman_given_position "its measure"
close_window "on the recent file"
remembered=$(cat "$XDG_CONFIG_HOME"/keyscope/*.json "$XDG_CONFIG_HOME"/keyscope/views/*.json | cksum)
"$keyscope" view "$folder/live.h5" --layer 0 --screenshot "$folder/shot.png" 2>"$folder/stderr" || fail "no screenshot"
[ "$remembered" = "$(cat "$XDG_CONFIG_HOME"/keyscope/*.json "$XDG_CONFIG_HOME"/keyscope/views/*.json | cksum)" ] ||
  fail "a screenshot changed the settings"
for file in "$XDG_CONFIG_HOME"/keyscope/*.json "$XDG_CONFIG_HOME"/keyscope/views/*.json; do
  head -c 500 /dev/urandom >"$file"
done
open_window "$folder/live.h5"
expect loaded true "damaged settings keep nobody from looking"
expect layer 0 "and are as if they were not there"
close_window "on damaged settings"

echo "== live: generated text, and once more with the run before kept"
open_window --model "$model" --prompt "The special magic number for Rome is: 7. The special magic number" --policy keydiff \
  --budget 16 --block 8 --generate 24 --ignore-eos
expect live done "prompt and generated tokens are through"
# The frame that first says so may have been drawn while the last token was on its way.
for _ in $(seq 600); do
  [ "$(value block)" = $(($(value blocks_done) - 1)) ] && break
  sleep 0.1
done
[ "$(value block)" = $(($(value blocks_done) - 1)) ] || fail "the window did not follow to the last token"
expect busy false "all was measured"
click $(at view_text 0.5 0.5); expect shown text "the text with what was generated"
picture generated
xdotool keydown ctrl; xdotool keydown shift; key r; xdotool keyup shift; xdotool keyup ctrl
expect dialog 3 "the form for another run"
picture rerun
click $(at run 0.5 0.5); expect dialog 0 "it begins"
expect live done "and ends"
expect_text '"notice":"The run before is kept' "which says where the first one is"
xdotool keydown ctrl; key p; xdotool keyup ctrl; expect dialog 5 "the palette"
xdotool type --delay 120 "earlier"
expect_text '"palette_at":"Earlier run: demo_model' "the first run is there"
key Return; expect loaded true "it is shown again"
xdotool keydown ctrl; key s; xdotool keyup ctrl; expect dialog 6 "it can be saved"
picture save
key ctrl+a; xdotool type --delay 60 "$folder/saved.h5"; key Return
expect notice "saved: $folder/saved.h5" "it is saved"; expect shown text "the same view"
close_window "after two runs"
"$keyscope" inspect "$folder/saved.h5" | grep -q "complete *yes" || fail "what was saved is no recording"

echo "== another recording is chosen: in the window's dialog, and in the desktop's"
cp "$folder/saved.h5" "$folder/again.h5"
open_window "$folder/saved.h5"
expect loaded true "the one that was saved"
xdotool keydown ctrl; key o; xdotool keyup ctrl; expect dialog 1 "the dialog"
mkdir "$folder/deeper"
xdotool type --delay 60 "deeper/../deeper/../aga"; sleep 0.3
picture open
key Return; expect dialog 0 "a part of its name is enough"
expect source "$folder/again.h5" "and it is opened"
close_window "on a chosen recording"
mkdir "$folder/bin"
printf '#!/bin/sh\necho "%s"\n' "$folder/saved.h5" >"$folder/bin/zenity"
chmod +x "$folder/bin/zenity"
export XDG_CURRENT_DESKTOP=GNOME
PATH="$folder/bin:$PATH" open_window "$folder/again.h5"
unset XDG_CURRENT_DESKTOP
expect loaded true "opened"
xdotool keydown ctrl; key o; xdotool keyup ctrl
expect source "$folder/saved.h5" "what the desktop's dialog says"
expect dialog 0 "none of ours is open"
close_window "on what the desktop's dialog said"

echo "== live: the form says what is missing"
open_window --model "$folder/no_model"
expect dialog 3 "the form asks"
picture form
key Escape; expect dialog 0 "Esc closes it"
close_window "on the form"

echo "== frame times"
"$keyscope" bench view "$folder/live.h5" --frames 5 --gesture pan --gesture heads --json "$folder/times.json" \
  >"$folder/stdout" 2>"$folder/stderr" || fail "frame times are measured"
grep -q "^heads  *5 " "$folder/stdout" || fail "the table has a line for each gesture: $(cat "$folder/stdout")"
grep -q '"frame_ms_p99"' "$folder/times.json" || fail "the rows have the 99th percentile"
"$keyscope" bench view "$folder/live.h5" --view text --gesture pan 2>"$folder/stderr" && fail "a text was panned"
grep -q "no plot to pan" "$folder/stderr" || fail "it says that the view has no plot"
"$keyscope" bench live --model "$model" --prompt-file "$prompt" --policy none --block 64 --repeat 1 --json "$folder/live.json" \
  >"$folder/stdout" 2>"$folder/stderr" || fail "what the window adds is measured: $(cat "$folder/stderr")"
grep -qE "^(the window adds|what the window adds cannot be told)" "$folder/stdout" || fail "and printed"
grep -q '"run": "in_window"' "$folder/live.json" || fail "the rows have the run in the window"

echo "== no display"
(unset DISPLAY WAYLAND_DISPLAY; "$keyscope" view 2>"$folder/stderr")
[ $? = 1 ] || fail "without a display the exit status is 1"
grep -q "no display" "$folder/stderr" || fail "without a display it says so"
echo "all went well"
