# The first live drive, sourced by scripts/demo: three minds on one task, a person at the lock. Ends it by `finish`.
# shellcheck shell=bash

begin=$SECONDS
wave() { # NAME OPTIONS: open a wave and wait until its candidates are at the lock
  local code=0
  shown orchconverge open conf "$@" --engine scripted --script ../minds.json --foreground || code=$?
  ((code == 5)) || finish "$((code == 0 ? 1 : code))" $((SECONDS - begin)) conf
}
must() { shown "$@" || finish 1 $((SECONDS - begin)) conf; }

title "A repository in which settings cannot be read yet, and a written target"
python "$root/scripts/lib/drive.py" "$dir"
cd "$dir/conf"
must cat ../target.toml
must orchconverge declare --target ../target.toml

title "Three minds at once, from one commit, each in its own way and with tests of its own"
wave --minds 3
must orchconverge matrix conf

title "At the lock: one whole, and a reason for each that is turned down"
must orchconverge graft conf.2
must orchconverge prune conf.1 --reason 'a # in quotes is no comment'
must orchconverge prune conf.3 --reason 'forty lines that the standard library has' \
  --residue 'its cases of malformed input are the best of the three'

title "Below the whole: tests of those that lost, by the same gate"
printf '(these want more than what was grafted gives, so it is refused)\n'
if shown orchconverge graft conf.1 --only tests/own/test_words.py --reason 'a word needs no quotes'; then
  finish 1 $((SECONDS - begin)) conf
fi
must orchconverge graft conf.3 --only tests/own/test_malformed.py --reason "what the winner's tests leave out"
must orchconverge harvest conf --residue 'the format is a part of TOML' --frontier 'Are nested tables wanted?'
must orchconverge frontier list

title "Another wave begins from there, and is told what was learned"
wave --minds 1 --approach 'from JSON'
brief=$(grep -lF 'from JSON' "$XDG_STATE_HOME"/orchconverge/*/given/*/brief.md | head -n 1)
[[ -n $brief ]] || finish 1 $((SECONDS - begin)) conf
sed -n '/^# What was learned/,/^# Rules/{/^# Rules/!{s/^/    /;p;};}' "$brief"
must orchconverge graft conf.4
must orchconverge resume conf --final push --foreground

title "The history of the target, on the remote"
git --git-dir "$remote" log --reverse --format='%C(auto)%h %s%n%w(0,4,4)%(trailers:only,unfold)' main..orchconverge/conf
must orchconverge status --verbose
finish 0 $((SECONDS - begin)) conf
