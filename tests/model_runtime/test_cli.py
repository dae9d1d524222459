"""`cua-runtime` as a person types it."""

import subprocess
import sys
from pathlib import Path

import pytest

from model_runtime.checkpoint.reader import Checkpoint, check_tensors
from model_runtime.cli import main
from model_runtime.config import QuantizationConfig, load_config

TABLE = """{dir}: config.json and all 100 tensors fit
  layers       2 of width 32, 2 vision blocks of width 48
  experts      4 a layer, 2 for each token, INT4 in groups of 32
  context      262,144 tokens
  dtypes       bfloat16 450.6 KiB, int32 6.1 KiB, float32 16 B
  files        456.7 KiB in 2 shards
"""


def call(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    with pytest.raises(SystemExit) as caught:
        main([str(arg) for arg in args])
    code = caught.value.code
    assert isinstance(code, int)
    out, err = capsys.readouterr()
    return code, out, err


def test_made_model_is_whole(tmp_path, capsys):
    folder = tmp_path / "tiny"
    sizes = ["--layers", 2, "--hidden", 32, "--experts", 4, "--expert-width", 64, "--seed", 7, "--dtype", "float32"]
    assert call(capsys, "make-tiny", folder, "--int4", *sizes) == (
        0,
        f"{folder} written; look at it with: cua-runtime check {folder}\n",
        "",
    )
    config = load_config(folder)
    text = config.text
    assert (text.num_hidden_layers, text.hidden_size, text.n_routed_experts, text.moe_intermediate_size) == (
        2,
        32,
        4,
        64,
    )
    assert (config.dtype, type(config.quantization)) == ("float32", QuantizationConfig)
    check_tensors(Checkpoint.open(folder), config)


def test_unpacked_experts_are_dense(tmp_path, capsys):
    packed, dense = tmp_path / "packed", tmp_path / "dense"
    call(capsys, "make-tiny", packed, "--int4", "--seed", 3)
    assert call(capsys, "unpack", packed, dense, "--dtype", "float32") == (
        0,
        f"{dense} written; look at it with: cua-runtime check {dense}\n",
        "",
    )
    config = load_config(dense)
    assert (config.dtype, config.quantization) == ("float32", None)
    check_tensors(Checkpoint.open(dense), config)
    assert call(capsys, "unpack", packed, dense)[0] == 2
    code, _, err = call(capsys, "unpack", dense, tmp_path / "again")
    assert (code, "are not packed" in err) == (2, True)


def test_check_prints_what_there_is(tmp_path, capsys):
    folder = tmp_path / "tiny"
    call(capsys, "make-tiny", folder, "--int4", "--layers", 2, "--hidden", 32, "--experts", 4)
    code, out, err = call(capsys, "check", folder)
    assert (code, err) == (0, "")
    head, rows = out.split("\n\n")
    assert head + "\n" == TABLE.format(dir=folder)
    table = {line[2:18].strip(): line[18:].split() for line in rows.splitlines()[1:]}
    assert table["routed experts"] == [
        f"{4 * 3 * 32 * 32:,}",
        f"{4 * 3 * (32 * 32 / 2 + 32 * 2 + 2 * 4) / 1024:.1f}",
        "KiB",
    ]
    assert [*table][-1] == "all"
    counts = [int(row[0].replace(",", "")) for row in table.values()]
    assert sum(counts[:-1]) == counts[-1]


def test_faults_are_one_line_and_status_2(tmp_path, capsys):
    folder = tmp_path / "tiny"
    call(capsys, "make-tiny", folder)
    (folder / "model-00001-of-00002.safetensors").unlink()
    what = "does not fit its config: model-00001-of-00002.safetensors is missing"
    assert call(capsys, "check", folder) == (2, "", f"cua-runtime: {folder} {what}\n")
    (folder / "config.json").write_text("{}")
    code, out, err = call(capsys, "check", folder)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "model_type is null" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--dtype", "int8"], "--dtype is int8, expected one of bfloat16, float32, float16"),
        (
            ["--hidden", "40", "--int4"],
            "text_config.hidden_size is 40, expected a multiple of the INT4 group_size (32)",
        ),
    ],
)
def test_sizes_that_do_not_go(tmp_path, capsys, args, message):
    assert call(capsys, "make-tiny", tmp_path / "tiny", *args) == (2, "", f"cua-runtime: {message}\n")
    assert not (tmp_path / "tiny").exists()


def test_nothing_is_overwritten(tmp_path, capsys):
    (tmp_path / "mine").write_text("mine")
    code, _, err = call(capsys, "make-tiny", tmp_path)
    assert (code, err) == (2, f"cua-runtime: {tmp_path} exists and is not an empty folder; use another one\n")
    assert call(capsys, "make-tiny", tmp_path / "mine")[0] == 2
    assert call(capsys, "make-tiny", tmp_path / "mine" / "inner")[2].startswith("cua-runtime: ")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_help_names_the_commands_and_loads_nothing_heavy(root: Path):
    code = (
        "import sys; from model_runtime.cli import main\n"
        "try: main(['--help'])\n"
        "finally: print(sorted({'torch', 'numpy', 'safetensors', 'transformers', 'tiktoken'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.splitlines()[-1]) == (0, "", "[]")
    assert "check" in done.stdout
    assert "make-tiny" in done.stdout
