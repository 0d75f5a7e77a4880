"""weft-schedule export, import and what is done with files. files.py WEFT_SCHEDULE"""
import json
import pathlib
import subprocess
import sys
import tempfile


def run(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def well(*arguments):
    status, out, err = run(*arguments)
    assert status == 0, (arguments, out, err)
    return out


def refused(*arguments, saying, status=2):
    ended, out, err = run(*arguments)
    assert ended == status and saying in out + err, (arguments, ended, out, err)


folder = pathlib.Path(tempfile.mkdtemp())
one, two = folder / "one.json", folder / "two.json"

# What could not be written is not told as if it had been.
for arguments in (["list"], ["verify", "--algorithm", "ring"], ["simulate", "--collective", "all_reduce", "--ranks", "4"]):
    with open("/dev/full", "w") as full:
        lost = subprocess.run([sys.argv[1], *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert lost.returncode == 2 and "did not take all" in lost.stderr, (arguments, lost)

# Everything that is built in, for every collective, root and form: out, in, and out again.
names = [line.split(":")[0] for line in well("list").splitlines() if not line.startswith(" ")]
assert len(names) > 15, names
assert "all_gather (ranks " in well("list"), well("list")
for name in names:
    if name in ("zero_copy", "pull"):
        refused("export", "--algorithm", name, "--ranks", "1-4", "-o", one, saying="which a file cannot name")
        continue
    well("export", "--algorithm", name, "--ranks", "1-4", "-o", one)
    well("import", one, "-o", two)
    assert one.read_text() == two.read_text(), name
    well("export", "--algorithm", two, "--ranks", "1-4", "-o", one)
    served = [schedule["collective"] for schedule in json.loads(two.read_text())["schedules"]]
    assert served == [schedule["collective"] for schedule in json.loads(one.read_text())["schedules"]], name
    if name == "pairwise":
        assert any(c["in_place"] for c in served) and {c["ranks"] for c in served} == {1, 2, 3, 4}
    if name == "knomial":
        assert {c["root"] for c in served if c["kind"] == "broadcast" and c["ranks"] == 4} == {0, 1, 2, 3}

# A file is shown, proven and simulated like what it was made of.
well("export", "--algorithm", "knomial", "--radix", "3", "--collective", "broadcast", "--ranks", "5", "-o", one)
case = ("--collective", "broadcast", "--ranks", "5", "--root", "2")
assert well("show", "--algorithm", one, *case) == well("show", "--algorithm", "knomial", "--radix", "3", *case)
assert "broadcast of 5 ranks, root 4: proven, in place too" in well("verify", one)
assert well("verify", "--algorithm", one) == well("verify", one)
for flag in ("--sequences", "--all"):
    refused("verify", one, flag, saying="a file is verified by itself")
well("export", "--algorithm", "ring", "--ranks", "2-4", "-o", two)
lines = well("verify", two, "--ranks", "3", "--collective", "broadcast", "--slots", "5").splitlines()
assert len(lines) == 4 and all("broadcast of 3 ranks" in line for line in lines[1:]), lines
refused("verify", two, "--ranks", "7-9", saying="no schedule for these ranks and this collective; it has all_reduce of 2")
well("export", "--algorithm", "swing", "--ranks", "2-8", "--name", "again", "-o", one)
rows = json.loads(well("simulate", "--format", "json", "--algorithm", f"swing,{one}", "--ranks", "8",
                       "--bytes", "1K-1M"))["rows"]
times = [[row["time_us"] for row in rows if row["algorithm"] == name] for name in ("swing", "again")]
assert times[0] == times[1] and len(times[0]) == 5, times
refused("simulate", "--algorithm", one, "--ranks", "9", "--bytes", "8", saying="of these counts of ranks; it has all_reduce of ")

refused("show", "--collective", "all_reduce", "--algorithm", one, "--ranks", "9",
        saying="does not serve all_reduce of 9 ranks; it has all_reduce of 2, 3, 4, 5, 6, 7, 8 ranks")
refused("verify", one, "--algorithm", "ring", saying="--algorithm ring means nothing beside the file ")

# Single schedules become one algorithm.
for ranks in (2, 3):
    (folder / f"{ranks}.json").write_text(
        well("show", "--collective", "all_reduce", "--algorithm", "ring", "--ranks", ranks, "--format", "json"))
out = well("import", folder / "2.json", folder / "3.json", "--name", "mine", "--summary", "of two", "-o", one)
assert out.startswith("mine: all_reduce of 2, 3 ranks\n"), out
assert json.loads(one.read_text())["summary"] == "of two"
for name, why in (("", "it is empty"), ("ring", "an algorithm that is built in"), ("auto", "weft's own choice")):
    refused("import", folder / "2.json", "--name", name, saying=why)
refused("export", "--algorithm", "ring", "--name", "", saying="it is empty")
for name, why in (("auto", "weft's own choice"), ("swing", "an algorithm that is built in")):
    refused("export", "--algorithm", "ring", "--name", name, "-o", two, saying=why)
named = json.loads(one.read_text()) | {"name": "auto"}
two.write_text(json.dumps(named))
for command in ("import", "verify"):
    refused(command, two, saying='two.json: "auto" is weft\'s own choice of an algorithm')
for slots in (["--slots", "3", one], ["--slots", "2,3", one], [one, "--slots", "2,3"]):
    well("verify", *slots)
refused("import", folder / "2.json", one, saying="two schedules for all_reduce of 2 ranks")

# What is wrong is shown, but neither proven, imported nor simulated.
wrong = json.loads(one.read_text())
steps = wrong["schedules"][1]["programs"][1]["lanes"][0]["steps"]
steps[2]["chunk"] = 0
two.write_text(json.dumps(wrong))
refused("verify", two, status=1, saying="NOT PROVEN: all_reduce of 3 ranks (with 2 to 64 slots): rank ")
refused("import", two, "-o", folder / "never.json", status=1, saying="lane 0, step")
assert not (folder / "never.json").exists()
refused("simulate", "--algorithm", two, "--ranks", "3", "--bytes", "8", saying="lane 0, step")
well("simulate", "--algorithm", two, "--ranks", "2", "--bytes", "8")
well("show", "--algorithm", two, "--collective", "all_reduce", "--ranks", "3")
steps[0]["to"]["peer"] = 9
two.write_text(json.dumps(wrong))
refused("show", "--algorithm", two, "--collective", "all_reduce", "--ranks", "3",
        saying="rank 1, lane 0, step 0 (send of chunk 1): it sends to rank 9, which is not there")
two.write_text("{")
refused("verify", two, saying="two.json: The schedule is not JSON")
refused("export", "--algorithm", folder / "none.json", saying="No such file")
refused("export", "--algorithm", "magic", saying="files that end in .json")
refused("export", "--algorithm", "ring", "--collective", "gather", saying="does not serve gather")
refused("export", "--algorithm", "ring", "-o", "/nowhere/x", saying="/nowhere/x")

# What an algorithm does not take is not taken silently.
ring = ("--collective", "all_reduce", "--algorithm", "ring", "--radix", "3")
for tool in (["show", "--ranks", "4"], ["export"]):
    refused(*tool, *ring, saying="--radix 3 means nothing to algorithm ring")
refused("simulate", "--ranks", "4", *ring, saying="--radix 3 means nothing to any of these algorithms")
well("simulate", "--ranks", "4", "--collective", "broadcast", "--algorithm", "double_tree,knomial", "--radix", "3")
refused("verify", "--all", "--ranks", "8-4", saying='--ranks "8-4" ends before it begins; write 4-8')
for range in ("8-0", "2000-8", "0-8"):
    refused("verify", "--all", "--ranks", range, saying="is no range of rank counts")
refused("show", "--ranks", "2-4", *ring[:4], saying='--ranks: "2-4" is not one whole number from 1 to 1024')
refused("show", "--collective", "gather", "--algorithm", "ring", "--ranks", "4", saying="gather of 4 ranks; it serves all_reduce")
refused("show", "--collective", "all_reduce", "--algorithm", "direct_two_shot", "--ranks", "65",
        saying="all_reduce of 65 ranks; it serves all_reduce of 1-64 ranks.")

# What proves nothing says so before a table.
for flags in ([], ["--sequences"]):
    ended, out, err = run("verify", "--algorithm", "bine", "--collective", "all_reduce", "--ranks", "2-4", *flags)
    assert (ended, out) == (2, "") and "--algorithm bine does not serve all_reduce of 2-4 ranks; " \
        "it serves reduce, broadcast, gather, scatter." in err, (ended, out, err)
refused("verify", "--all", "--algorithm", "ring", saying="--all is every algorithm, not only --algorithm ring")
two.write_text("[]")
refused("verify", two, saying="at the top: an object is expected")

# Command lines that say nothing, or what nobody knows.
refused(saying="give one of list, show, verify, simulate, export, import")
refused("bogus", saying='"bogus" is none of list, show')
refused("bogus", "--frob", saying='"bogus" is none of list, show')
refused("--frob", saying="there is no option --frob. weft-schedule --help")
refused("simulate", "--network", "nope", saying="there is no option --network. weft-schedule simulate --help")
refused("simulate", "--radix", "abc", "junk", saying="--radix")
refused("show", saying="--collective is required. weft-schedule show --help")
refused("show", "--frob", saying="there is no option --frob. weft-schedule show --help")
assert "--topology" in well("simulate", "--help")
refused("list", "now", saying='"now" belongs to no option')
assert well("--version").startswith("weft-schedule ")
