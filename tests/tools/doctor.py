"""weft-doctor on folders in which not everything is a good dump. doctor.py WEFT_DOCTOR"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def run(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True, timeout=20)
    return done.returncode, done.stdout, done.stderr


def dump(rank, **more):
    call = {"call": "all_reduce(count=4, float32, sum)", "algorithm": "ring/simple", "state": "done", "begun_ns": 1}
    return json.dumps({"weft_dump": 1, "communicator": "c0ffee", "rank": rank, "size": 2, "why": "signal",
                       "operations": [{"number": i, "sequence": i, **call} for i in range(1, 4)], **more})


folder = pathlib.Path(tempfile.mkdtemp())
good = [folder / f"weft-c0ffee-rank{rank}.json" for rank in range(2)]
for rank, path in enumerate(good):
    path.write_text(dump(rank))
status, sound, err = run(folder)
assert (status, err) == (0, "") and "the dumps of ranks 0 and 1" in sound, (status, sound, err)

# What cannot be read is named and left out.
torn, pipe, nested = (folder / f"weft-{name}.json" for name in ("torn", "pipe", "folder"))
torn.write_text(dump(0)[:50])
os.mkfifo(pipe)
nested.mkdir()
status, out, err = run(folder)
assert (status, out) == (2, sound), (status, out, err)
assert sorted(line.split(": ")[2] for line in err.splitlines()) == sorted(map(str, (torn, pipe, nested))), err
assert f"{pipe}: It is not a regular file" in err, err
status, out, err = run("--json", folder)
assert status == 2 and json.loads(out)[0]["dumps_of"] == [0, 1], (status, out, err)

# That something is wrong is the greater news.
good[1].write_text(dump(1, failure={"code": "peer lost", "message": "rank 0 is lost", "peer": 0}))
status, out, err = run(folder)
assert status == 1 and "Rank 0 was lost: rank 1 says so" in out and len(err.splitlines()) == 3, (status, out, err)

# What could not be printed, and arguments that are wrong.
with open("/dev/full", "w") as full:
    lost = subprocess.run([sys.argv[1], good[0]], stdout=full, stderr=subprocess.PIPE, text=True)
assert lost.returncode == 1 and "did not take all" in lost.stderr, lost  # that rank 1's is missing is the greater news
for arguments, named in (([], "DUMPS"), (["--operations", "0", folder], "--operations"), (["--frob", folder], "--frob"),
                         (["--frob"], "there is no option --frob"), (["--json", "--operations", "2", folder], "--json")):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "") and named in err, (arguments, status, out, err)

# Nothing but bad ones, by name; nothing at all.
for paths in ([torn], [pipe], [torn, pipe], [folder / "none.json"], [tempfile.mkdtemp()]):
    for options in ([], ["--json"]):
        status, out, err = run(*options, *paths)
        assert (status, out) == (2, "") and len(err.splitlines()) == len(paths), (paths, status, out, err)
